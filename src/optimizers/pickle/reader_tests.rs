use super::*;
use crate::pickle::Object;

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn error(bytes: &[u8]) -> PickleError {
    match read(bytes) {
        Err(error) => error,
        Ok(value) => panic!("read as {value:?}"),
    }
}

/// An SGD as protocol 0 writes it, with a shared dict and a text that is used twice.
const SGD: &[u8] = b"ccopy_reg\n_reconstructor\np0\n(cmxnet.optimizer.optimizer\nSGD\np1\n\
    c__builtin__\nobject\np2\nNtp3\nRp4\n(dp5\nVlr\np6\nF0.5\nsVcounts\np7\n(dp8\nI0\n(dp9\nVw\n\
    p10\nI3\nsssVcount\np11\ng9\nsVmulti_precision\np12\nI01\nsb.";

#[test]
fn an_object_of_protocol_0() {
    let counts = || Value::Dict(vec![(text("w"), Value::Int(3))]);
    let expected = Object {
        class: "mxnet.optimizer.optimizer.SGD".into(),
        attributes: vec![
            ("lr".into(), Value::Float(0.5)),
            ("counts".into(), Value::Dict(vec![(Value::Int(0), counts())])),
            ("count".into(), counts()),
            ("multi_precision".into(), Value::Bool(true)),
        ],
    };
    assert_eq!(read(SGD), Ok(Value::Object(Box::new(expected))));
    // Python ignores what follows the end.
    assert_eq!(read(&[SGD, b"\0rest"].concat()), read(SGD));
}

#[test]
fn every_prefix_is_cut_off() {
    for end in 0..SGD.len() {
        assert!(read(&SGD[..end]).is_err(), "{end}");
    }
}

#[test]
fn containers_of_later_protocols() {
    let bytes = b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01aK\x01\
        X\x01\x00\x00\x00b\
        ](M\x01\x02J\xff\xff\xff\xffe\x8c\x01c)\x8c\x01dN\x85\x8c\x01e\x88\x89\x86\x8c\x01fK\x01\
        K\x02\
        K\x03\x87\x8c\x01g\x8a\x02\x00\x80\x8c\x01hG?\xe0\x00\x00\x00\x00\x00\x00u.";
    let expected = vec![
        (text("a"), Value::Int(1)),
        (text("b"), Value::List(vec![Value::Int(513), Value::Int(-1)])),
        (text("c"), Value::Tuple(vec![])),
        (text("d"), Value::Tuple(vec![Value::None])),
        (text("e"), Value::Tuple(vec![Value::Bool(true), Value::Bool(false)])),
        (text("f"), Value::Tuple((1..4).map(Value::Int).collect())),
        (text("g"), Value::Int(-32768)),
        (text("h"), Value::Float(0.5)),
    ];
    assert_eq!(read(bytes), Ok(Value::Dict(expected)));
}

#[test]
fn equal_keys_are_one_as_in_python() {
    // {1: 'a', 1.0: 'b', True: 'c', 'x': 'd', (1,): 'e', (1.0,): 'f'}
    let bytes = b"}(K\x01Va\nF1.0\nVb\nI01\nVc\nVx\nVd\nK\x01\x85Ve\nF1\n\x85Vf\nu.";
    let expected = vec![
        (Value::Int(1), text("c")),
        (text("x"), text("d")),
        (Value::Tuple(vec![Value::Int(1)]), text("f")),
    ];
    assert_eq!(read(bytes), Ok(Value::Dict(expected)));
    // Two NaNs are two keys.
    let Ok(Value::Dict(items)) = read(b"}(Fnan\nNFnan\nNu.") else { panic!("no dict") };
    assert_eq!(items.len(), 2);
    assert_eq!(error(b"}]Ns."), PickleError::Type("the key of a dict"));
}

#[test]
fn names_off_the_list_are_refused_by_name() {
    for (bytes, class) in [
        (&b"cos\nsystem\n(Vid\ntR."[..], "os.system"),
        (b"c__builtin__\neval\n(V1\ntR.", "__builtin__.eval"),
        (b"(ios\nsystem\n.", "os.system"),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93.", "posix.system"),
        (b"cmxnet.optimizer.optimizer\npickle.loads\n.", "mxnet.optimizer.optimizer.pickle.loads"),
        (b"cmxnet.ndarray.ndarray\nNDArray\n.", "mxnet.ndarray.ndarray.NDArray"),
        (b"c__main__\nMine\n.", "__main__.Mine"),
    ] {
        assert_eq!(error(bytes), PickleError::Refused { class: class.into() });
    }
}

#[test]
fn opcodes_that_are_no_data_are_refused_by_name() {
    let adam = b"cmxnet.optimizer.optimizer\nAdam\n";
    for (bytes, expected) in [
        (&b"Pid\n."[..], "PERSID"),
        (b"NQ.", "BINPERSID"),
        (b"\x82\x01.", "EXT1"),
        (b"\x84\x01\x00\x00\x00.", "EXT4"),
        (b"(imxnet.optimizer.optimizer\nAdam\n.", "INST"),
        (&[b"(", &adam[..], b"o."].concat(), "OBJ"),
        (&[&adam[..], b")}\x92."].concat(), "NEWOBJ_EX"),
        (b"\x8f(K\x01\x90.", "EMPTY_SET"),
        (b"\x97.", "NEXT_BUFFER"),
    ] {
        let PickleError::Opcode { name, .. } = error(bytes) else { panic!("{expected}") };
        assert_eq!(name, expected);
    }
    assert_eq!(error(b"\xff"), PickleError::UnknownOpcode(0xff));
    assert_eq!(error(b"\x80\x06N."), PickleError::Protocol(6));
}

#[test]
fn known_names_are_not_called_with_anything_else() {
    let adam = b"cmxnet.optimizer.optimizer\nAdam\n";
    // Calling the class would run its __init__.
    let called = error(&[&adam[..], b")R."].concat());
    assert_eq!(called, PickleError::Call("mxnet.optimizer.optimizer.Adam"));
    // An object whose base is not `object`, a codec that is not plain, a maker that is a class.
    let base = [b"ccopyreg\n_reconstructor\n", &adam[..], b"c__builtin__\ndict\nN\x87R."].concat();
    assert_eq!(error(&base), PickleError::Call("copyreg._reconstructor"));
    assert_eq!(error(b"c_codecs\nencode\nVab\nVhex\n\x86R."), PickleError::Call("_codecs.encode"));
    let factory = [b"ccollections\ndefaultdict\n", &adam[..], b"\x85R."].concat();
    assert_eq!(error(&factory), PickleError::Call("collections.defaultdict"));
    // Attributes that are no dict, or come twice.
    let attributes = PickleError::Type("the attributes of an object");
    assert_eq!(error(&[&adam[..], b")\x81N}\x86b."].concat()), attributes);
    assert_eq!(error(&[&adam[..], b")\x81}b}b."].concat()), attributes);
    assert_eq!(error(&[&adam[..], b"}b."].concat()), attributes);
    let name = error(&[&adam[..], b")\x81}K\x01Nsb."].concat());
    assert_eq!(name, PickleError::Type("the name of an attribute"));
    // A class, a type or bytes are no result.
    assert!(read(&[&adam[..], b"."].concat()).is_err());
    assert_eq!(error(b"C\x01a."), PickleError::Type("the result: bytes"));
}

#[test]
fn numpy_scalars_become_numbers() {
    let scalar = |name: &str, order: &str, content: &[u8]| {
        let head = format!(
            "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n(V{name}\nI00\nI01\ntR\
             (I3\nV{order}\nNNNI-1\nI-1\nI0\ntb"
        );
        let text: Vec<u8> = match content {
            [] => vec![],
            _ => content.iter().flat_map(|b| format!("\\u{b:04x}").into_bytes()).collect(),
        };
        let tail = [b"c_codecs\nencode\n(V", &text[..], b"\nVlatin1\ntR\x86R."].concat();
        read(&[head.as_bytes(), &tail].concat())
    };
    assert_eq!(scalar("f4", "<", &0.1_f32.to_le_bytes()), Ok(Value::Float(f64::from(0.1_f32))));
    assert_eq!(scalar("f8", ">", &0.1_f64.to_be_bytes()), Ok(Value::Float(0.1)));
    assert_eq!(scalar("i8", "<", &(-5_i64).to_le_bytes()), Ok(Value::Int(-5)));
    assert_eq!(scalar("O8", "|", &[]), Err(PickleError::NumpyType("O8".into())));
    assert_eq!(scalar("f4", "<", &[1]), Err(PickleError::Malformed("numpy scalar")));
}

#[test]
fn depth_is_bounded_and_cycles_are_found() {
    let nested = |depth: usize| [&b"]".repeat(depth)[..], &b"a".repeat(depth - 1), b"."].concat();
    assert!(read(&nested(DEPTH_MAX)).is_ok());
    let depth = PickleError::TooMuch("values in each other");
    assert_eq!(error(&nested(DEPTH_MAX + 1)), depth);
    assert_eq!(error(&nested(500_000)), depth);
    // Tuples within tuples are made in another way; nothing may recurse there either.
    assert_eq!(error(&[b"N", &b"\x85".repeat(500_000)[..], b"."].concat()), depth);
    // l = []; l.append(l); and a dict within an object within itself.
    assert_eq!(error(b"]q\x00h\x00a."), PickleError::Cycle);
    let object = b"cmxnet.optimizer.optimizer\nAdam\n)\x81q\x00}Va\nh\x00sb.";
    assert_eq!(error(object), PickleError::Cycle);
    // A key that holds its own dict is none.
    assert_eq!(error(b"}q\x00h\x00Ns."), PickleError::Cycle);
}

#[test]
fn small_pickles_of_huge_values_are_refused() {
    // Every list holds the former one ten times: 10^20 values of 600 bytes.
    let mut laughs = b"](NNNNNNNNNNeq\x00".to_vec();
    for index in 0..20 {
        laughs.extend(b"](");
        laughs.extend([b'h', index].repeat(10));
        laughs.extend([b'e', b'q', index + 1]);
    }
    laughs.push(b'.');
    let values = PickleError::TooMuch("values, with those that are used more than once");
    assert_eq!(error(&laughs), values);
    // One text, many times.
    let long = "x".repeat(TEXT_BYTES_MAX);
    let mut texts = [b"](V", long.as_bytes(), b"\nq\x00"].concat();
    texts.extend(b"h\x00".repeat(40));
    texts.extend(b"e.");
    assert_eq!(error(&texts), PickleError::TooMuch("bytes of texts"));
    // The same text, encoded again and again.
    let mut encoded = [b"V", long.as_bytes(), b"\nq\x00"].concat();
    encoded.extend(b"c_codecs\nencode\nh\x00Vlatin1\n\x86R".repeat(40));
    encoded.push(b'.');
    assert_eq!(error(&encoded), PickleError::TooMuch("bytes of texts"));
}

#[test]
fn numbers_and_lengths_are_bounded() {
    assert_eq!(error(b"I9223372036854775808\n."), PickleError::IntegerTooLarge);
    assert_eq!(
        error(&[b"L", &b"9".repeat(5000)[..], b"L\n."].concat()),
        PickleError::IntegerTooLarge
    );
    assert_eq!(
        error(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."),
        PickleError::IntegerTooLarge
    );
    assert_eq!(error(b"\x8b\xff\xff\xff\xff."), PickleError::Malformed("integer"));
    assert_eq!(error(b"I1_000\n."), PickleError::Malformed("integer"));
    assert_eq!(error(b"Np99999999999\n."), PickleError::TooMuch("memos"));
    assert_eq!(error(b"Nr\xff\xff\xff\xff."), PickleError::TooMuch("memos"));
    assert_eq!(error(b"Np-1\n."), PickleError::Malformed("memo"));
    assert_eq!(error(b"g7\n."), PickleError::NoMemo(7));
    assert_eq!(error(b"X\xff\xff\xff\xff."), PickleError::TooMuch("bytes of one text"));
    assert_eq!(
        error(b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff."),
        PickleError::TooMuch("bytes of one text")
    );
    assert_eq!(error(&vec![b'N'; NODES_MAX + 1]), PickleError::TooMuch("values"));
    assert_eq!(error(&vec![b'('; NODES_MAX + 1]), PickleError::TooMuch("marks"));
    let twice = [b"N", &b"2".repeat(NODES_MAX)[..]].concat();
    assert_eq!(error(&twice), PickleError::TooMuch("values on the stack"));
    assert_eq!(error(&vec![b'0'; PICKLE_BYTES_MAX + 1]), PickleError::TooMuch("bytes"));
    let line = [b"V", &vec![b'x'; LINE_BYTES_MAX + 1][..]].concat();
    assert_eq!(error(&line), PickleError::TooMuch("bytes of one line"));
}

#[test]
fn the_stack_is_not_read_below_a_mark() {
    for bytes in
        [&b"."[..], b"0", b"1", b"(.", b"N(.", b"N(2", b"N(a.", b"]Na(b.", b"R", b"t", b"(Nd."]
    {
        assert!(read(bytes).is_err(), "{bytes:?}");
    }
    // POP takes the mark where nothing lies above it.
    assert_eq!(read(b"N(0."), Ok(Value::None));
    assert_eq!(read(b"N(NN1."), Ok(Value::None));
}
