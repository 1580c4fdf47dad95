//! What a pickle holds.

/// Plain data, or an object of a known class.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// A bool.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A dict, in the order of insertion; a later value of the same key replaces the former.
    Dict(Vec<(Self, Self)>),
    /// An object.
    Object(Box<Object>),
}

/// An object: its class and its attributes (`__dict__`).
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Module and name, such as `mxnet.optimizer.optimizer.SGD`.
    pub class: String,
    /// Its attributes.
    pub attributes: Vec<(String, Value)>,
}

impl Object {
    /// The attribute of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}
