//! From the machine's nodes to a [`Value`]: shared nodes are copied, cycles and what is no data are
//! refused. Recursion is bounded by the depth, work by the size of the result.

use std::collections::BTreeMap;

use super::error::PickleError;
use super::limits::{DEPTH_MAX, RESULT_TEXT_BYTES_MAX, RESULT_VALUES_MAX};
use super::node::{Nodes, PickleId, PickleNode};
use super::value::{Object, Value};

type Result<T> = std::result::Result<T, PickleError>;

/// The value of a node.
pub(super) fn convert(nodes: &Nodes, root: PickleId) -> Result<Value> {
    Converter { nodes, path: Vec::new(), values: 0, text: 0 }.value(root)
}

struct Converter<'a> {
    nodes: &'a Nodes,
    /// The nodes that hold the one at hand, outermost first.
    path: Vec<PickleId>,
    values: usize,
    text: usize,
}

impl Converter<'_> {
    fn value(&mut self, id: PickleId) -> Result<Value> {
        self.values += 1;
        if self.values > RESULT_VALUES_MAX {
            return Err(PickleError::TooMuch("values, with those that are used more than once"));
        }
        let nodes = self.nodes;
        Ok(match nodes.get(id) {
            PickleNode::None => Value::None,
            PickleNode::Bool(flag) => Value::Bool(*flag),
            PickleNode::Int(number) => Value::Int(*number),
            PickleNode::Float(number) => Value::Float(*number),
            PickleNode::Text(text) => Value::Text(self.text(text)?),
            PickleNode::List(items) => Value::List(self.inside(id, |this| this.all(items))?),
            PickleNode::Tuple(items) => Value::Tuple(self.inside(id, |this| this.all(items))?),
            PickleNode::Dict(items) => Value::Dict(self.inside(id, |this| this.dict(items))?),
            PickleNode::Object(class, state) => Value::Object(Box::new(Object {
                class: (*class).to_owned(),
                attributes: match state {
                    Some(state) => self.inside(id, |this| this.attributes(*state))?,
                    None => Vec::new(),
                },
            })),
            PickleNode::Bytes(_) => return Err(PickleError::Type("the result: bytes")),
            PickleNode::Global(_) => return Err(PickleError::Type("the result: a class itself")),
            PickleNode::Dtype(_) => return Err(PickleError::Type("the result: a numpy dtype")),
        })
    }

    /// Does something one level deeper.
    fn inside<T>(&mut self, id: PickleId, job: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.path.contains(&id) {
            return Err(PickleError::Cycle);
        }
        if self.path.len() >= DEPTH_MAX {
            return Err(PickleError::TooMuch("values in each other"));
        }
        self.path.push(id);
        let done = job(self)?;
        self.path.pop();
        Ok(done)
    }

    fn text(&mut self, text: &str) -> Result<String> {
        self.text += text.len();
        if self.text > RESULT_TEXT_BYTES_MAX {
            return Err(PickleError::TooMuch("bytes of texts"));
        }
        Ok(text.to_owned())
    }

    fn all(&mut self, items: &[PickleId]) -> Result<Vec<Value>> {
        items.iter().map(|item| self.value(*item)).collect()
    }

    fn dict(&mut self, items: &[(PickleId, PickleId)]) -> Result<Vec<(Value, Value)>> {
        let mut places = BTreeMap::new();
        let mut out: Vec<(Value, Value)> = Vec::with_capacity(items.len().min(RESULT_VALUES_MAX));
        for (key, value) in items {
            let key = self.value(*key)?;
            let value = self.value(*value)?;
            // As in Python, the first of equal keys stays and its value is replaced.
            match places.entry(DictKey::of(&key, out.len())?) {
                std::collections::btree_map::Entry::Vacant(free) => {
                    free.insert(out.len());
                    out.push((key, value));
                }
                std::collections::btree_map::Entry::Occupied(taken) => out[*taken.get()].1 = value,
            }
        }
        Ok(out)
    }

    fn attributes(&mut self, state: PickleId) -> Result<Vec<(String, Value)>> {
        let PickleNode::Dict(items) = self.nodes.get(state) else {
            return Err(PickleError::Type("the attributes of an object"));
        };
        let named = self.inside(state, |this| this.dict(items))?;
        named
            .into_iter()
            .map(|(key, value)| match key {
                Value::Text(name) => Ok((name, value)),
                _ => Err(PickleError::Type("the name of an attribute")),
            })
            .collect()
    }
}

/// A dict's key, equal where Python's are: 1, 1.0 and True are one key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum DictKey {
    None,
    Int(i64),
    Float(u64),
    /// Not equal to itself, so each is a key of its own.
    NotANumber(usize),
    Text(String),
    Tuple(Vec<Self>),
}

impl DictKey {
    /// `place` tells keys apart that are equal to none.
    fn of(value: &Value, place: usize) -> Result<Self> {
        Ok(match value {
            Value::None => Self::None,
            Value::Bool(flag) => Self::Int(i64::from(*flag)),
            Value::Int(number) => Self::Int(*number),
            Value::Float(number) if number.is_nan() => Self::NotANumber(place),
            Value::Float(number) => whole(*number).map_or(Self::Float(number.to_bits()), Self::Int),
            Value::Text(text) => Self::Text(text.clone()),
            Value::Tuple(items) => {
                Self::Tuple(items.iter().map(|i| Self::of(i, place)).collect::<Result<_>>()?)
            }
            Value::List(_) | Value::Dict(_) | Value::Object(_) => {
                return Err(PickleError::Type("the key of a dict"));
            }
        })
    }
}

/// The integer that equals a float.
fn whole(number: f64) -> Option<i64> {
    /// 2^63, the first float that is too large.
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    let fits = number.trunc() == number && (-TOO_LARGE..TOO_LARGE).contains(&number);
    fits.then_some(number as i64)
}
