"""Shows two runs of examples/train_digits.py side by side; fails unless their weights are equal."""

import json
import sys


def main():
    runs = []
    for path in sys.argv[1:]:
        with open(path) as file:
            runs.append(json.load(file))
    stock, ours = runs
    if stock["pslite"] or not ours["pslite"]:
        sys.exit("demo: the libraries were not the ones that the columns say")
    print()
    print("epoch   stock accuracy   seconds    pslite accuracy   seconds")
    for i, (a, b) in enumerate(zip(stock["epochs"], ours["epochs"]), 1):
        print("{:5}   {:14.4f}   {:7.2f}    {:15.4f}   {:7.2f}".format(
            i, a["accuracy"], a["seconds"], b["accuracy"], b["seconds"]))
    equal = stock["weights"] == ours["weights"]
    print()
    print("final weights, stock : " + stock["weights"])
    print("final weights, pslite: " + ours["weights"])
    print("bit-identical: " + ("yes" if equal else "NO"))
    sys.exit(0 if equal else 1)


main()
