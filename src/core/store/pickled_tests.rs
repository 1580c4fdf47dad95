//! Optimizers as workers send them, for tests of all rooms.

use bytes::Bytes;

/// An optimizer as a worker sends it: a pickle of protocol 0.
pub(crate) fn pickled(class: &str, own: &[(&str, &str)]) -> Bytes {
    let mut attributes = vec![
        ("rescale_grad", "F1.0\n"),
        ("lr_scheduler", "N"),
        ("lr", "F0.5\n"),
        ("wd", "F0.0\n"),
        ("lr_mult", "(d"),
        ("wd_mult", "(d"),
        ("idx2name", "(d"),
        ("begin_num_update", "I0\n"),
        ("num_update", "I0\n"),
        ("_all_index_update_counts", "(d"),
        ("clip_gradient", "N"),
        ("multi_precision", "I00\n"),
    ];
    attributes.retain(|(name, _)| !own.iter().any(|(other, _)| other == name));
    attributes.extend(own);
    let mut text = format!(
        "ccopy_reg\n_reconstructor\n(cmxnet.optimizer.optimizer\n{class}\nc__builtin__\nobject\n\
         NtR(d"
    );
    for (name, value) in attributes {
        text += &format!("V{name}\n{value}s");
    }
    Bytes::from(text + "b.")
}
