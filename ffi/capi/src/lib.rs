//! The C ABI of pslite: `include/pslite.h`, one exported function for each declaration.
