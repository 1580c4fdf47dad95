use super::*;

/// What `compat-tests/programs/two_bit.py` got from the functions in MXNet's library, bit for bit.
#[test]
fn it_is_mxnets() {
    let mut kinds = std::collections::BTreeMap::new();
    for line in include_str!("../../../compat-tests/data/two_bit.txt").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        *kinds.entry(fields[0]).or_insert(0) += 1;
        match fields[0] {
            "quantize" => compresses(fields[1..].try_into().unwrap()),
            "dequantize" => decompresses(fields[1..].try_into().unwrap()),
            "size" => {
                let [elements, words] = [1, 2].map(|field| fields[field].parse::<usize>().unwrap());
                assert_eq!(TwoBit::compressed_bytes(elements), 4 * words, "{elements}");
            }
            "body" => {
                let two_bit = TwoBit::new(floats(fields[1])[0]).unwrap();
                assert_eq!(Compression::TwoBit(two_bit).to_body(), fields[2]);
                let Ok(Compression::TwoBit(read)) = Compression::from_body(fields[2].as_bytes())
                else {
                    panic!("{line}");
                };
                let digits = fields[2].strip_prefix("1,").unwrap();
                assert_eq!(read.threshold(), digits.parse::<f32>().unwrap());
            }
            "type" => {
                let body = format!("{},0.5", fields[1]);
                let ours =
                    matches!(Compression::from_body(body.as_bytes()), Ok(Compression::TwoBit(_)));
                assert_eq!(ours, fields[2] == "known", "{line}");
            }
            other => panic!("{other}"),
        }
    }
    let counts: Vec<_> = kinds.into_iter().collect();
    let expected = [("body", 6), ("dequantize", 24), ("quantize", 24), ("size", 8), ("type", 4)];
    assert_eq!(counts, expected);
}

fn compresses([threshold, gradient, before, compressed, after]: [&str; 5]) {
    let two_bit = TwoBit::new(floats(threshold)[0]).unwrap();
    let (gradient, mut residual) = (floats(gradient), floats(before));
    let mut out = vec![0xaa; TwoBit::compressed_bytes(gradient.len())];
    two_bit.compress(&gradient, &mut residual, &mut out).unwrap();
    assert_eq!((out, bits(&residual)), (bytes(compressed), bits(&floats(after))));
}

fn decompresses([threshold, compressed, values]: [&str; 3]) {
    let two_bit = TwoBit::new(floats(threshold)[0]).unwrap();
    let (compressed, values) = (bytes(compressed), floats(values));
    let mut out = vec![7.0; values.len()];
    two_bit.decompress(&compressed, &mut out).unwrap();
    assert_eq!(bits(&out), bits(&values));
    let mut sums: Vec<f32> =
        (0..values.len()).map(|n| if n == 0 { -0.0 } else { n as f32 }).collect();
    let expected: Vec<f32> = sums.iter().zip(&values).map(|(sum, value)| sum + value).collect();
    two_bit.add(&compressed, &mut sums).unwrap();
    assert_eq!(bits(&sums), bits(&expected));
}

#[test]
fn what_is_not_sent_is_sent_later() {
    let two_bit = TwoBit::new(0.5).unwrap();
    let gradient = [0.2, -0.3, 0.05, 0.5, 0.0];
    let (mut residual, mut sum) = ([0.0; 5], [0.0; 5]);
    let mut compressed = [0; 4];
    for _ in 0..100 {
        two_bit.compress(&gradient, &mut residual, &mut compressed).unwrap();
        two_bit.add(&compressed, &mut sum).unwrap();
    }
    for ((gradient, sum), residual) in gradient.iter().zip(sum).zip(residual) {
        assert!((sum + residual - 100.0 * gradient).abs() < 1e-3 && residual.abs() <= 0.5);
    }
}

#[test]
fn bodies_as_stock_reads_them() {
    let two_bit = |threshold| Ok(Compression::TwoBit(TwoBit { threshold }));
    for (body, expected) in [
        (&b"1,0.250000"[..], two_bit(0.25)),
        (b" 1, 0.5", two_bit(0.5)),
        (b"1", two_bit(0.5)),
        (b"1,", two_bit(0.5)),
        (b"1,0.5,7", two_bit(0.5)),
        (b"1,-1", two_bit(-1.0)),
        (b"0", Ok(Compression::None)),
        (b"0,", Ok(Compression::None)),
        (b"2,0.5", Err(CompressionError::UnknownType(2))),
        (b"1,abc", Err(CompressionError::Malformed)),
        (b"1,nan", Err(CompressionError::Malformed)),
        (b"1,1e99", Err(CompressionError::Malformed)),
        (b"", Err(CompressionError::Malformed)),
        (b"2bit,0.5", Err(CompressionError::Malformed)),
        (b"\xff", Err(CompressionError::Malformed)),
        (&[b'1'; BODY_BYTES_MAX + 1], Err(CompressionError::Malformed)),
    ] {
        assert_eq!(Compression::from_body(body), expected, "{body:?}");
    }
    assert_eq!(Compression::None.to_body(), "0");
}

#[test]
fn wrong_lengths_change_nothing() {
    let two_bit = TwoBit::new(0.5).unwrap();
    let mut into = [1.0; 17];
    for bytes in [0, 4, 7, 9, 12] {
        let error = Err(CompressionError::Length { elements: 17, bytes });
        assert_eq!(two_bit.decompress(&vec![0xff; bytes], &mut into), error);
        assert_eq!(two_bit.add(&vec![0xff; bytes], &mut into), error);
        assert_eq!(two_bit.compress(&into, &mut [0.0; 17], &mut vec![0; bytes]), error);
    }
    assert!(two_bit.compress(&into, &mut [0.0; 16], &mut [0; 8]).is_err());
    assert_eq!(into, [1.0; 17]);
    assert_eq!(two_bit.decompress(&[], &mut []), Ok(()));
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..][..2], 16).unwrap()).collect()
}

fn floats(hex: &str) -> Vec<f32> {
    bytes(hex).as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
}

/// Of NaNs only that they are one.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| if value.is_nan() { u32::MAX } else { value.to_bits() }).collect()
}
