//! Optimizers as MXNet's workers send them: pickles of protocol 0, with what MXNet 1.9.1 gives
//! each.

use std::fmt::Write;

/// What applies gradients on the servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServerRule {
    /// SGD without momentum.
    Sgd {
        /// The learning rate.
        rate: f64,
    },
    /// SGD with momentum.
    Momentum {
        /// The learning rate.
        rate: f64,
        /// How much of the former step is kept.
        momentum: f64,
    },
    /// Adam, with MXNet's defaults but for the rate.
    Adam {
        /// The learning rate.
        rate: f64,
    },
}

/// What every optimizer has (`Optimizer.__init__`), after its learning rate.
const COMMON: &str = "Vrescale_grad\nF1.0\nsVlr_scheduler\nNsVwd\nF0.0\nsVlr_mult\n(dsVwd_mult\n(ds\
    Vbegin_num_update\nI0\nsVnum_update\nI0\ns\
    V_all_index_update_counts\n(dI0\n(dssV_index_update_count\n(ds\
    Vclip_gradient\nNsVmulti_precision\nI00\nsVaggregate_num\nI4\nsVidx2name\n(dsVsym_info\n(ts\
    Vallow_np_array\nI00\nsVlazy_update\nI01\ns";

impl ServerRule {
    /// The pickle.
    #[must_use]
    pub fn pickled(&self) -> Vec<u8> {
        let (class, rate, own): (_, _, &[(&str, f64)]) = match self {
            Self::Sgd { rate } => ("SGD", rate, &[("momentum", 0.0)]),
            Self::Momentum { rate, momentum } => ("SGD", rate, &[("momentum", *momentum)]),
            Self::Adam { rate } => {
                ("Adam", rate, &[("beta1", 0.9), ("beta2", 0.999), ("epsilon", 1e-8)])
            }
        };
        let mut text = format!(
            "ccopy_reg\n_reconstructor\n(cmxnet.optimizer.optimizer\n{class}\nc__builtin__\n\
             object\n\
             NtR(d{COMMON}"
        );
        for (name, value) in own.iter().chain(&[("lr", *rate)]) {
            // Writing into a String does not fail.
            let _ = write!(text, "V{name}\nF{value:?}\ns");
        }
        text.push_str("b.");
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_optimizers::Optimizer;
    use pslite_optimizers::pickle;

    #[test]
    fn the_store_reads_them() {
        let rules = [
            ServerRule::Sgd { rate: -0.5 },
            ServerRule::Momentum { rate: 0.5, momentum: 0.5 },
            ServerRule::Adam { rate: 0.01 },
        ];
        for rule in rules {
            let value = pickle::read(&rule.pickled()).unwrap();
            assert!(Optimizer::from_value(&value).is_ok(), "{rule:?}");
        }
    }
}
