"""What MXNet's 2-bit gradient compression makes of fixed data, through the functions in
libmxnet.so.

Standard output, one line each:
- `quantize THRESHOLD GRADIENT RESIDUAL COMPRESSED RESIDUAL`: before and after, in hexadecimal;
- `dequantize THRESHOLD COMPRESSED VALUES`;
- `size ELEMENTS WORDS`: how many words of 4 bytes that many elements become;
- `body TEXT BODY`: what a worker with that threshold sends its servers;
- `type NUMBER known|unknown`: whether a server can decompress that type.
"""

import ctypes
import os
import struct

import mxnet as mx
import numpy as np

LIBRARY = mx.base._LIB
PREFIX = "_ZN5mxnet7kvstore19GradientCompression"
POINTER = ctypes.c_void_p
# The object is 16 bytes large.
MEMORY = ctypes.create_string_buffer(64)
THIS = ctypes.addressof(MEMORY)


def function(name, *types, result=None):
    found = LIBRARY[PREFIX + name]
    found.argtypes, found.restype = [POINTER, *types], result
    return lambda *args: found(THIS, *args)


construct = function("C1Ev")
set_two_bit = function("20SetTwoBitCompressionEf", ctypes.c_float)
quantize = function("8QuantizeERKNS_7NDArrayEPS2_S5_i", POINTER, POINTER, POINTER, ctypes.c_int)
dequantize = function("10DequantizeERKNS_7NDArrayEPS2_i", POINTER, POINTER, ctypes.c_int)
compressed_size = function("17GetCompressedSizeEl", ctypes.c_int64, result=ctypes.c_int64)
decode = function("12DecodeParamsERKSs", POINTER)
encode_into = LIBRARY[PREFIX + "12EncodeParamsEv"]
encode_into.argtypes = [POINTER, POINTER]


def encode():
    """A std::string of GCC 4.8 is a pointer to its text; its length lies 24 bytes before."""
    text = POINTER()
    encode_into(ctypes.addressof(text), THIS)
    length, = struct.unpack("<Q", ctypes.string_at(text.value - 24, 8))
    return ctypes.string_at(text.value, length).decode()


def words(array):
    return np.ascontiguousarray(array, "<f4").tobytes().hex()


def quantized(threshold, gradient, residual):
    set_two_bit(threshold)
    count = compressed_size(len(gradient))
    source, rest = mx.nd.array(gradient), mx.nd.array(residual)
    # Nonzero, to see that all of it is written.
    out = mx.nd.ones(count) * 7
    mx.nd.waitall()
    quantize(source.handle, out.handle, rest.handle, 0)
    mx.nd.waitall()
    print("quantize", words([threshold]), words(gradient), words(residual),
          out.asnumpy().tobytes().hex(), words(rest.asnumpy()))


def dequantized(threshold, compressed, count):
    set_two_bit(threshold)
    source, out = mx.nd.array(np.frombuffer(compressed, "<f4")), mx.nd.ones(count) * 7
    assert source.asnumpy().tobytes() == compressed, "the words do not survive as floats"
    mx.nd.waitall()
    dequantize(source.handle, out.handle, 0)
    mx.nd.waitall()
    print("dequantize", words([threshold]), compressed.hex(), words(out.asnumpy()))


def survives(compressed):
    """True if copying the words as floats does not change them."""
    return not np.isnan(np.frombuffer(compressed, "<f4")).any()


def known(number):
    """Asks in a child: the library ends the process over a type that it does not know."""
    child = os.fork()
    if child == 0:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        text = f"{number},0.5".encode()
        # length, capacity, references (many: never freed), then the text.
        memory = struct.pack("<QQi4x", len(text), len(text), 1000) + text + b"\0"
        buffer = ctypes.create_string_buffer(memory, len(memory))
        decode(ctypes.addressof(POINTER(ctypes.addressof(buffer) + 24)))
        compressed_size(16)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def main():
    construct()
    numbers = [0.5, -0.5, 0.49, -0.49, 1.7, -1.7, 0.0, -0.0, 1e-40, 3e38, -3e38, np.inf, -np.inf,
               np.nan, 0.6, -0.6, 0.1, -9]
    state = np.random.RandomState(3)
    for threshold in (0.5, 0.1, 2.0):
        quantized(threshold, np.float32(numbers), np.zeros(len(numbers), "f4"))
        for count in (1, 4, 15, 16, 17, 33, 100):
            quantized(threshold, state.uniform(-2, 2, count).astype("f4"),
                      state.uniform(-threshold, threshold, count).astype("f4"))
    for threshold in (0.5, 0.1, 0.0, -1.0):
        for count in (1, 3, 16, 17, 31, 1000):
            size = 4 * -(-count // 16)
            # Of 63 words one is a NaN in a fifth of the draws; a thousand draws are a limit.
            compressed = next(filter(survives, (state.bytes(size) for _ in range(1000))))
            dequantized(threshold, compressed, count)
    set_two_bit(0.5)
    for count in (0, 1, 15, 16, 17, 32, 1000, 1 << 40):
        print("size", count, compressed_size(count))
    for threshold in (0.5, 0.1, 2 / 3, 1e-7, 1e10, 3e38):
        set_two_bit(threshold)
        print("body", words([threshold]), encode())
    for number in range(4):
        print("type", number, "known" if known(number) else "unknown")


main()
