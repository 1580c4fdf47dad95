//! SHA-256 (FIPS 180-4): the Python package makes the number of an array of the hash of its name.

/// Square roots of the first primes: the first 32 bits behind the point.
const BEGIN: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The hash of a text.
pub(super) fn sha256(text: &[u8]) -> [u8; 32] {
    let mut padded = text.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - text.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(8 * text.len() as u64).to_be_bytes());
    let rounds = rounds();
    let mut state = BEGIN;
    for block in padded.as_chunks::<64>().0 {
        mix(&mut state, block, &rounds);
    }
    let mut hash = [0; 32];
    for (into, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *into = word.to_be_bytes();
    }
    hash
}

/// Cube roots of the first 64 primes: the first 32 bits behind the point.
fn rounds() -> [u32; 64] {
    let is_prime = |n: &u64| (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    let mut primes = (2..).filter(is_prime);
    std::array::from_fn(|_| cube_root(primes.next().unwrap_or(2)))
}

/// That of a number below 2^9, whose root is below 8: by bits, from the highest one on.
fn cube_root(of: u64) -> u32 {
    let (target, mut root) = (u128::from(of) << 96, 0_u128);
    for bit in (0..35).rev() {
        let next = root | 1 << bit;
        if next * next * next <= target {
            root = next;
        }
    }
    root as u32
}

fn mix(state: &mut [u32; 8], block: &[u8; 64], rounds: &[u32; 64]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..64 {
        let (early, late) = (words[at - 15], words[at - 2]);
        let small = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
        let large = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
        words[at] =
            words[at - 16].wrapping_add(small).wrapping_add(words[at - 7]).wrapping_add(large);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, round) in words.iter().zip(rounds) {
        let large = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first = [large, choice, *round, *word].into_iter().fold(h, u32::wrapping_add);
        let small = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = small.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &[u8]) -> String {
        sha256(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Of the standard's own examples, and around the end of a block.
    #[test]
    fn hashes_are_the_standards() {
        let none = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(b""), none);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(b"abc"), abc);
        let two = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let hash = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_eq!(hex(two), hash);
        let fifty_five = "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318";
        assert_eq!(hex(&[b'a'; 55]), fifty_five);
    }
}
