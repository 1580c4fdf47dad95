//! The list: which names a pickle may have, and what each stands for.

use super::error::PickleError;

/// The longest name in an error, in bytes.
const SHOWN_NAME_BYTES_MAX: usize = 200;

/// The classes that become objects: what `mx.optimizer.register` knows in MXNet 1.9.1
/// (optimizer.py, contrib.py, svrg_optimizer.py), and lr_scheduler.py. Whether an optimizer can be
/// run is not said here: SGLD draws random numbers, and yet its settings are plain data.
const CLASSES: [&str; 27] = [
    "mxnet.contrib.svrg_optimization.svrg_optimizer._AssignmentOptimizer",
    "mxnet.contrib.svrg_optimization.svrg_optimizer._SVRGOptimizer",
    "mxnet.lr_scheduler.CosineScheduler",
    "mxnet.lr_scheduler.FactorScheduler",
    "mxnet.lr_scheduler.LRScheduler",
    "mxnet.lr_scheduler.MultiFactorScheduler",
    "mxnet.lr_scheduler.PolyScheduler",
    "mxnet.optimizer.contrib.GroupAdaGrad",
    "mxnet.optimizer.optimizer.AdaDelta",
    "mxnet.optimizer.optimizer.AdaGrad",
    "mxnet.optimizer.optimizer.Adam",
    "mxnet.optimizer.optimizer.Adamax",
    "mxnet.optimizer.optimizer.DCASGD",
    "mxnet.optimizer.optimizer.FTML",
    "mxnet.optimizer.optimizer.Ftrl",
    "mxnet.optimizer.optimizer.LAMB",
    "mxnet.optimizer.optimizer.LARS",
    "mxnet.optimizer.optimizer.LBSGD",
    "mxnet.optimizer.optimizer.NAG",
    "mxnet.optimizer.optimizer.Nadam",
    "mxnet.optimizer.optimizer.Optimizer",
    "mxnet.optimizer.optimizer.RMSProp",
    "mxnet.optimizer.optimizer.SGD",
    "mxnet.optimizer.optimizer.SGLD",
    "mxnet.optimizer.optimizer.Signum",
    "mxnet.optimizer.optimizer.Test",
    "mxnet.optimizer.optimizer.ccSGD",
];

/// True if objects of that class (module and name) are read.
#[must_use]
pub fn is_known(class: &str) -> bool {
    CLASSES.binary_search(&class).is_ok()
}

/// What a name in a pickle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// A class of the list.
    Class(&'static str),
    /// `copyreg._reconstructor`: makes an empty object of a class (protocols 0 and 1).
    Reconstructor,
    /// `copyreg.__newobj__`: the same.
    NewObject,
    /// `builtins.object`, the base class that the reconstructor is told.
    BaseObject,
    /// `collections.OrderedDict`: a dict.
    OrderedDict,
    /// `collections.defaultdict`: a dict; what makes its default values is never called.
    DefaultDict,
    /// A builtin type as a maker of default values.
    Factory,
    /// `numpy.core.multiarray.scalar`.
    NumpyScalar,
    /// `numpy.dtype`.
    NumpyDtype,
    /// `_codecs.encode`: how protocols 0 to 2 write bytes.
    Encode,
}

/// Finds what a name stands for. Python 2's names of modules are what protocols 0 to 2 write.
pub(super) fn global(module: &str, name: &str) -> Result<Global, PickleError> {
    Ok(match (module, name) {
        ("copyreg" | "copy_reg", "_reconstructor") => Global::Reconstructor,
        ("copyreg" | "copy_reg", "__newobj__") => Global::NewObject,
        ("builtins" | "__builtin__", "object") => Global::BaseObject,
        (
            "builtins" | "__builtin__",
            "int" | "long" | "float" | "bool" | "str" | "unicode" | "list" | "dict",
        ) => Global::Factory,
        ("collections", "OrderedDict") => Global::OrderedDict,
        ("collections", "defaultdict") => Global::DefaultDict,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Global::NumpyScalar,
        ("numpy", "dtype") => Global::NumpyDtype,
        ("_codecs", "encode") => Global::Encode,
        _ => return class(module, name),
    })
}

fn class(module: &str, name: &str) -> Result<Global, PickleError> {
    CLASSES
        .iter()
        .find(|class| class.strip_prefix(module).and_then(|c| c.strip_prefix('.')) == Some(name))
        .map(|class| Global::Class(class))
        .ok_or_else(|| refused(module, name))
}

/// The refusal of a name, fit to be logged.
pub(super) fn refused(module: &str, name: &str) -> PickleError {
    let whole = module.chars().chain(['.']).chain(name.chars());
    let mut class = String::new();
    for piece in whole.map(char::escape_debug) {
        if class.len() > SHOWN_NAME_BYTES_MAX {
            class.push_str("...");
            break;
        }
        class.extend(piece);
    }
    PickleError::Refused { class }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_so_that_it_can_be_searched() {
        assert!(CLASSES.is_sorted());
        assert!(CLASSES.iter().all(|class| is_known(class)));
        assert!(!is_known("posix.system") && !is_known(""));
    }

    #[test]
    fn a_name_is_cut_only_where_the_module_ends() {
        let sgd = Global::Class("mxnet.optimizer.optimizer.SGD");
        assert_eq!(global("mxnet.optimizer.optimizer", "SGD"), Ok(sgd));
        for (module, name) in
            [("mxnet.optimizer", "optimizer.SGD"), ("mxnet", "optimizer.optimizer.SGD")]
        {
            // The same class by another cut: Python finds it too, through the attributes.
            assert_eq!(global(module, name), Ok(sgd));
        }
        assert!(global("mxnet.optimizer.optimizer", "SGD.update").is_err());
        assert!(global("mxnet.optimizer.optimizer", "pickle.loads").is_err());
    }

    #[test]
    fn a_refusal_is_short_and_printable() {
        let error = refused("a\n\u{1b}[31m", &"x".repeat(10_000)).to_string();
        assert!(error.contains(r"a\n\u{1b}[31m.xxx") && error.len() < 320, "{error}");
    }
}
