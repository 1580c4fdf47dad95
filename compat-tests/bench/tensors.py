"""The tensors of the models that the benchmarks train, input to output. Numbers of float32 each."""

#: Bytes of a number.
FLOAT = 4


def resnet50():
    """Sizes of the trainable tensors of ResNet-50 v1 (He et al. 2015, table 1), input to output.

    A convolution has weights and no bias, and is followed by a normalisation with scale and shift:
    53 of each, then the classifier's weights and bias: 161 tensors, 25 557 032 numbers.
    """
    def convolution(inputs, outputs, kernel):
        return [inputs * outputs * kernel * kernel, outputs, outputs]

    sizes = convolution(3, 64, 7)
    inputs = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            sizes += convolution(inputs, width, 1)
            sizes += convolution(width, width, 3)
            sizes += convolution(width, 4 * width, 1)
            if block == 0:  # the shortcut changes the number of channels
                sizes += convolution(inputs, 4 * width, 1)
            inputs = 4 * width
    return sizes + [2048 * 1000, 1000]


def part(divisor):
    """The same, each tensor so many times smaller."""
    return [max(16, size // divisor) for size in resnet50()]


def fifth():
    """The same at a fifth of their size: none of them is so large that MXNet cuts it."""
    return part(5)


def huge():
    """The same behind one tensor that is half as large as they together."""
    return [sum(resnet50()) // 2, *resnet50()]
