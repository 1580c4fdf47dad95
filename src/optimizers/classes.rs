//! The list of the optimizers that can be run: the names of their classes in Python, for those who
//! read a name and for those who tell which there are. Must not know what a class does.

/// Hands the list to a macro: each name, and the variant of `Method` that runs it.
macro_rules! with_classes {
    ($then:ident) => {
        $then! {
            "SGD" => Sgd,
            "ccSGD" => Sgd,
            "Adam" => Adam,
            "NAG" => Nag,
            "Signum" => Signum,
            "FTML" => Ftml,
            "LARS" => Lars,
            "LBSGD" => Lbsgd,
            "LAMB" => Lamb,
            "DCASGD" => Dcasgd,
            "AdaGrad" => AdaGrad,
            "GroupAdaGrad" => GroupAdaGrad,
            "RMSProp" => RmsProp,
            "AdaDelta" => AdaDelta,
            "Ftrl" => Ftrl,
            "Adamax" => Adamax,
            "Nadam" => Nadam,
            "Test" => Test,
        }
    };
}

macro_rules! names {
    ($($class:literal => $variant:ident),* $(,)?) => {
        /// The classes with a native kernel.
        pub(super) const CLASSES: &[&str] = &[$($class),*];
    };
}

with_classes!(names);

pub(super) use with_classes;
