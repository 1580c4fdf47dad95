//! The stack machine of Python's pickles (Lib/pickletools.py), without any opcode that calls code.
//!
//! Objects of known classes are made from their attributes alone. The few functions that plain data
//! needs are not called but understood.

use std::collections::BTreeMap;

use super::classes::{Global, global, refused};
use super::error::PickleError;
use super::input::{PickleInput, ascii, decimal, integer, raw_unicode_escape, utf8};
use super::limits::{MEMO_INDEX_MAX, NODES_MAX};
use super::node::{Nodes, PickleId, PickleNode};
use super::numpy::Scalar;

type Result<T> = std::result::Result<T, PickleError>;

/// The newest protocol: of its opcodes only those for buffers outside of the pickle are not read.
const PROTOCOL_MAX: u8 = 5;

/// A pickle that is being read.
pub(super) struct Machine<'a> {
    input: PickleInput<'a>,
    nodes: Nodes,
    stack: Vec<PickleId>,
    /// How many values lay below each mark.
    marks: Vec<usize>,
    memo: BTreeMap<u64, PickleId>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            input: PickleInput(bytes),
            nodes: Nodes::default(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: BTreeMap::new(),
        }
    }

    /// Reads to the end; all values, and which is the result.
    pub(super) fn run(mut self) -> Result<(Nodes, PickleId)> {
        loop {
            match self.input.byte()? {
                b'.' => {
                    let root = self.pop()?;
                    return Ok((self.nodes, root));
                }
                opcode => self.step(opcode)?,
            }
        }
    }

    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            b'(' | b'0' | b'1' | b'2' => self.stack_opcode(opcode),
            b'p' | b'q' | b'r' | b'g' | b'h' | b'j' | 0x94 => self.memo_opcode(opcode),
            b'N' | b'I' | b'L' | b'F' | b'J' | b'K' | b'M' | b'G' | 0x88..=0x8b => {
                let node = self.number(opcode)?;
                self.push(node)
            }
            b'V' | b'X' | 0x8c | 0x8d | b'S' | b'T' | b'U' | b'B' | b'C' | 0x8e => {
                let node = self.text(opcode)?;
                self.push(node)
            }
            b'l' | b']' | b't' | b')' | 0x85..=0x87 | b'd' | b'}' => self.container(opcode),
            b'a' | b'e' | b's' | b'u' => self.fill(opcode),
            b'c' | 0x93 => self.name(opcode),
            b'R' => self.call(),
            0x81 => self.new_object(),
            b'b' => self.build(),
            0x80 => match self.input.byte()? {
                0..=PROTOCOL_MAX => Ok(()),
                protocol => Err(PickleError::Protocol(protocol)),
            },
            // How long the frame is says nothing: its opcodes follow.
            0x95 => self.input.u64().map(drop),
            _ => Err(self.no_data(opcode)),
        }
    }

    /// Opcodes that do more than data, and bytes that are none.
    fn no_data(&mut self, code: u8) -> PickleError {
        let name = match code {
            // An object of a class, made by calling it: its name says most.
            b'i' => match (self.input.text_line("class"), self.input.text_line("class")) {
                (Ok(module), Ok(name)) if global(module, name).is_err() => {
                    return refused(module, name);
                }
                _ => "INST",
            },
            b'o' => "OBJ",
            b'P' => "PERSID",
            b'Q' => "BINPERSID",
            0x82 => "EXT1",
            0x83 => "EXT2",
            0x84 => "EXT4",
            0x8f => "EMPTY_SET",
            0x90 => "ADDITEMS",
            0x91 => "FROZENSET",
            0x92 => "NEWOBJ_EX",
            0x96 => "BYTEARRAY8",
            0x97 => "NEXT_BUFFER",
            0x98 => "READONLY_BUFFER",
            _ => return PickleError::UnknownOpcode(code),
        };
        PickleError::Opcode { code, name }
    }

    // ---- the stack

    fn push(&mut self, node: PickleNode) -> Result<()> {
        let id = self.nodes.add(node)?;
        self.push_id(id)
    }

    fn push_id(&mut self, id: PickleId) -> Result<()> {
        if self.stack.len() >= NODES_MAX {
            return Err(PickleError::TooMuch("values on the stack"));
        }
        self.stack.push(id);
        Ok(())
    }

    /// Takes the last value; never one from below the last mark.
    fn pop(&mut self) -> Result<PickleId> {
        self.peek()?;
        self.stack.pop().ok_or(PickleError::Underflow)
    }

    fn peek(&self) -> Result<PickleId> {
        let floor = self.marks.last().copied().unwrap_or(0);
        self.stack.get(floor..).and_then(<[_]>::last).copied().ok_or(PickleError::Underflow)
    }

    /// Takes all values above the last mark, and the mark.
    fn pop_mark(&mut self) -> Result<Vec<PickleId>> {
        let floor = self.marks.pop().ok_or(PickleError::Underflow)?;
        Ok(self.stack.split_off(floor))
    }

    /// Takes values in pairs above the last mark, and the mark.
    fn pop_pairs(&mut self) -> Result<Vec<(PickleId, PickleId)>> {
        let values = self.pop_mark()?;
        let (pairs, rest) = values.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(PickleError::Malformed("dict: a key without a value"));
        }
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    }

    fn stack_opcode(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            b'(' => {
                if self.marks.len() >= NODES_MAX {
                    return Err(PickleError::TooMuch("marks"));
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'1' => self.pop_mark().map(drop),
            b'2' => {
                let top = self.peek()?;
                self.push_id(top)
            }
            // As Python: where nothing lies above the mark, the mark itself goes.
            _ if self.marks.last() == Some(&self.stack.len()) => self.pop_mark().map(drop),
            _ => self.pop().map(drop),
        }
    }

    // ---- memos

    fn memo_opcode(&mut self, opcode: u8) -> Result<()> {
        let index = match opcode {
            b'p' | b'g' => u64::try_from(decimal(self.input.text_line("memo")?)?)
                .map_err(|_| PickleError::Malformed("memo"))?,
            b'q' | b'h' => u64::from(self.input.byte()?),
            b'r' | b'j' => u64::from(self.input.u32()?),
            _ => self.memo.len() as u64,
        };
        if matches!(opcode, b'g' | b'h' | b'j') {
            let id = *self.memo.get(&index).ok_or(PickleError::NoMemo(index))?;
            return self.push_id(id);
        }
        if index > MEMO_INDEX_MAX {
            return Err(PickleError::TooMuch("memos"));
        }
        let top = self.peek()?;
        self.memo.insert(index, top);
        Ok(())
    }

    // ---- plain data

    fn number(&mut self, opcode: u8) -> Result<PickleNode> {
        Ok(match opcode {
            b'N' => PickleNode::None,
            0x88 => PickleNode::Bool(true),
            0x89 => PickleNode::Bool(false),
            b'I' => match self.input.text_line("integer")? {
                "00" => PickleNode::Bool(false),
                "01" => PickleNode::Bool(true),
                text => PickleNode::Int(decimal(text)?),
            },
            b'L' => PickleNode::Int(decimal(self.input.text_line("integer")?)?),
            b'J' => PickleNode::Int(i64::from(self.input.i32()?)),
            b'K' => PickleNode::Int(i64::from(self.input.byte()?)),
            b'M' => PickleNode::Int(i64::from(u16::from_le_bytes(self.input.array()?))),
            0x8a => {
                let count = self.input.byte()?;
                PickleNode::Int(integer(self.input.take(usize::from(count))?)?)
            }
            0x8b => {
                let count = u64::try_from(self.input.i32()?)
                    .map_err(|_| PickleError::Malformed("integer"))?;
                PickleNode::Int(integer(self.input.counted(count)?)?)
            }
            b'G' => PickleNode::Float(f64::from_be_bytes(self.input.array()?)),
            _ => PickleNode::Float(
                self.input
                    .text_line("float")?
                    .parse()
                    .map_err(|_| PickleError::Malformed("float"))?,
            ),
        })
    }

    fn text(&mut self, opcode: u8) -> Result<PickleNode> {
        if opcode == b'V' {
            return Ok(PickleNode::Text(raw_unicode_escape(self.input.line()?)?));
        }
        if opcode == b'S' {
            return Ok(PickleNode::Text(quoted(self.input.line()?)?));
        }
        let count = match opcode {
            b'X' | b'B' => u64::from(self.input.u32()?),
            b'T' => u64::try_from(self.input.i32()?).map_err(|_| PickleError::Malformed("text"))?,
            0x8d | 0x8e => self.input.u64()?,
            _ => u64::from(self.input.byte()?),
        };
        let bytes = self.input.counted(count)?;
        Ok(match opcode {
            b'B' | b'C' | 0x8e => PickleNode::Bytes(bytes.to_vec()),
            b'T' | b'U' => PickleNode::Text(ascii(bytes)?),
            _ => PickleNode::Text(utf8(bytes)?),
        })
    }

    fn container(&mut self, opcode: u8) -> Result<()> {
        let node = match opcode {
            b'l' => PickleNode::List(self.pop_mark()?),
            b']' => PickleNode::List(Vec::new()),
            b't' => PickleNode::Tuple(self.pop_mark()?),
            b')' => PickleNode::Tuple(Vec::new()),
            b'd' => PickleNode::Dict(self.pop_pairs()?),
            b'}' => PickleNode::Dict(Vec::new()),
            _ => {
                let mut items = Vec::new();
                for _ in 0x84..opcode {
                    items.push(self.pop()?);
                }
                items.reverse();
                PickleNode::Tuple(items)
            }
        };
        self.push(node)
    }

    /// Puts values into a list or a dict.
    fn fill(&mut self, opcode: u8) -> Result<()> {
        let (mut items, mut pairs) = (Vec::new(), Vec::new());
        match opcode {
            b'a' => items.push(self.pop()?),
            b'e' => items = self.pop_mark()?,
            b's' => {
                let value = self.pop()?;
                pairs.push((self.pop()?, value));
            }
            _ => pairs = self.pop_pairs()?,
        }
        let target = self.peek()?;
        match self.nodes.get_mut(target) {
            PickleNode::List(list) if matches!(opcode, b'a' | b'e') => list.append(&mut items),
            PickleNode::Dict(dict) if matches!(opcode, b's' | b'u') => dict.append(&mut pairs),
            _ => return Err(PickleError::Type("the setting of an item")),
        }
        Ok(())
    }

    // ---- objects

    /// A class or a function, by name.
    fn name(&mut self, opcode: u8) -> Result<()> {
        let known = if opcode == b'c' {
            let module = self.input.text_line("class")?;
            global(module, self.input.text_line("class")?)?
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            match (self.nodes.get(module), self.nodes.get(name)) {
                (PickleNode::Text(module), PickleNode::Text(name)) => global(module, name)?,
                _ => return Err(PickleError::Type("the name of a class")),
            }
        };
        self.push(PickleNode::Global(known))
    }

    /// What Python calls here is one of a few functions whose meaning is plain data.
    fn call(&mut self) -> Result<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let (PickleNode::Global(function), PickleNode::Tuple(arguments)) =
            (self.nodes.get(function), self.nodes.get(arguments))
        else {
            return Err(PickleError::Type("a call"));
        };
        let arguments: Vec<&PickleNode> = arguments.iter().map(|id| self.nodes.get(*id)).collect();
        let node = called(*function, &arguments)?;
        self.push(node)
    }

    /// `cls.__new__(cls)`.
    fn new_object(&mut self) -> Result<()> {
        let (arguments, class) = (self.pop()?, self.pop()?);
        let node = match (self.nodes.get(class), self.nodes.get(arguments)) {
            (PickleNode::Global(Global::Class(class)), PickleNode::Tuple(none))
                if none.is_empty() =>
            {
                PickleNode::Object(class, None)
            }
            _ => return Err(PickleError::Type("a new object")),
        };
        self.push(node)
    }

    /// Gives an object its attributes, or a numpy type its order of bytes.
    fn build(&mut self) -> Result<()> {
        let (state, target) = (self.pop()?, self.peek()?);
        let order = match self.nodes.get(state) {
            PickleNode::Tuple(items) => items.get(1).map(|order| self.nodes.get(*order)).cloned(),
            _ => None,
        };
        let is_dict = matches!(self.nodes.get(state), PickleNode::Dict(_));
        match (self.nodes.get_mut(target), order) {
            (PickleNode::Object(_, attributes @ None), _) if is_dict => *attributes = Some(state),
            (PickleNode::Dtype(scalar), Some(PickleNode::Text(order))) => {
                scalar.set_order(&order)?
            }
            _ => return Err(PickleError::Type("the attributes of an object")),
        }
        Ok(())
    }
}

/// What a call gives.
fn called(function: Global, arguments: &[&PickleNode]) -> Result<PickleNode> {
    match (function, arguments) {
        (
            Global::Reconstructor,
            [
                PickleNode::Global(Global::Class(class)),
                PickleNode::Global(Global::BaseObject),
                PickleNode::None,
            ],
        )
        | (Global::NewObject, [PickleNode::Global(Global::Class(class))]) => {
            Ok(PickleNode::Object(class, None))
        }
        (Global::OrderedDict | Global::DefaultDict, [])
        | (Global::DefaultDict, [PickleNode::None | PickleNode::Global(Global::Factory)]) => {
            Ok(PickleNode::Dict(Vec::new()))
        }
        (Global::NumpyDtype, [PickleNode::Text(name), ..]) => {
            Scalar::from_name(name).map(PickleNode::Dtype)
        }
        (Global::NumpyScalar, [PickleNode::Dtype(scalar), PickleNode::Bytes(bytes)]) => {
            scalar.read(bytes)
        }
        (Global::Encode, [PickleNode::Text(text), PickleNode::Text(name)]) if name == "latin1" => {
            let bytes: std::result::Result<Vec<u8>, _> =
                text.chars().map(|c| u8::try_from(u32::from(c))).collect();
            bytes.map(PickleNode::Bytes).map_err(|_| PickleError::Malformed("latin1 text"))
        }
        (Global::Class(class), _) => Err(PickleError::Call(class)),
        (Global::Reconstructor, _) => Err(PickleError::Call("copyreg._reconstructor")),
        (Global::NewObject, _) => Err(PickleError::Call("copyreg.__newobj__")),
        (Global::OrderedDict, _) => Err(PickleError::Call("collections.OrderedDict")),
        (Global::DefaultDict, _) => Err(PickleError::Call("collections.defaultdict")),
        (Global::NumpyDtype, _) => Err(PickleError::Call("numpy.dtype")),
        (Global::NumpyScalar, _) => Err(PickleError::Call("numpy.core.multiarray.scalar")),
        (Global::Encode, _) => Err(PickleError::Call("_codecs.encode")),
        (Global::BaseObject | Global::Factory, _) => Err(PickleError::Call("a builtin type")),
    }
}

/// Python 2's text: a literal in quotes. Escapes in it are not read.
fn quoted(line: &[u8]) -> Result<String> {
    let ([b'\'', inside @ .., b'\''] | [b'"', inside @ .., b'"']) = line else {
        return Err(PickleError::Malformed("text"));
    };
    if inside.contains(&b'\\') { Err(PickleError::Malformed("text")) } else { ascii(inside) }
}
