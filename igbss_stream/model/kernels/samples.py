"""Kernels on blocks of samples, in float32 or float64.

Sums run in float64 and in a fixed order: the result for a sample is identical to the bit for every division
into blocks.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import substitutes
from igbss_stream.model.kernels.jit import array_type, built_helper, helper, kernel, signature

Samples = NDArray[np.float32] | NDArray[np.float64]
Indices = NDArray[np.int64]
Array = NDArray[np.float64]

_WIDE = 24  # smallest number of outputs for which sums in registers are faster than transposing samples
_TILE = 64  # samples transposed at a time, for them to stay in the L1 cache
_LANES = 8  # numbers in a register, or in two
_ROWS, _COLUMNS = 4, 16  # samples and outputs that are summed together
_FEWEST = 16  # samples, below which arranging the weights takes longer than it saves

_F1 = array_type("float64", 1)
_R1, _R3 = (array_type("float64", n, readonly=True) for n in (1, 3))


def _declare_precisions(make: Callable[[Any], Any]) -> list[Any]:
    return [make("float32"), make("float64")]


@kernel(
    *_declare_precisions(
        lambda real: signature(
            "void", array_type(real, 2, readonly=True), array_type(real, 1), array_type(real, 1), _F1
        )
    ),
    substitute=substitutes.survey,
)
def survey(x: Samples, low: Samples, high: Samples, total: Array) -> None:
    """Update minimum, maximum and sum of each column; a sum that is not finite indicates a bad sample.

    A row may contain several samples, which makes narrow recordings as fast as wide ones. Processing four
    rows at a time needs a quarter of the loads and stores; the order of each sum is unchanged.
    """
    n_rows, width = x.shape
    fours = n_rows - n_rows % 4
    for m in range(0, fours, 4):
        for k in range(width):
            a, b, c, d = x[m, k], x[m + 1, k], x[m + 2, k], x[m + 3, k]
            low[k] = min(min(min(min(low[k], a), b), c), d)
            high[k] = max(max(max(max(high[k], a), b), c), d)
            total[k] = (((total[k] + a) + b) + c) + d
    for m in range(fours, n_rows):
        for k in range(width):
            low[k] = min(low[k], x[m, k])
            high[k] = max(high[k], x[m, k])
            total[k] += x[m, k]


@helper
def _sum_one(x: Samples, m: int, unmixing: Array, period: int, offset: Array, row: Array) -> None:
    """Fill row = offset + x[m] @ unmixing[period], summing inputs in order.

    Processing four inputs at a time needs a quarter of the loads and stores.
    """
    _, n_in, n_out = unmixing.shape
    fours = n_in - n_in % 4
    for n in range(n_out):
        row[n] = offset[n]
    for i in range(0, fours, 4):
        a, b = np.float64(x[m, i]), np.float64(x[m, i + 1])
        c, d = np.float64(x[m, i + 2]), np.float64(x[m, i + 3])
        for n in range(n_out):
            two = (row[n] + a * unmixing[period, i, n]) + b * unmixing[period, i + 1, n]
            row[n] = (two + c * unmixing[period, i + 2, n]) + d * unmixing[period, i + 3, n]
    for i in range(fours, n_in):
        value = np.float64(x[m, i])
        for n in range(n_out):
            row[n] += value * unmixing[period, i, n]


def _build_add_products() -> Any:
    """Return `_add_products` for numba: LLVM keeps the sums in registers, which no loop makes it do."""
    from numba.core import types
    from numba.extending import intrinsic

    ir: Any = import_module("llvmlite.ir")  # these two have no types
    cgutils: Any = import_module("numba.core.cgutils")
    vector = ir.VectorType(ir.DoubleType(), _LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    first = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, weights, sums = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        n_in = cgutils.unpack_tuple(builder, weights.shape, 2)[0]
        _, _, features = context.codegen().magic_tuple()  # of the processor that is compiled for
        width = _COLUMNS if "+avx512f" in features else _COLUMNS // 2  # the sums fit the registers
        index = context.get_value_type(types.intp)

        def point(array: Any, at: Any) -> Any:
            return builder.bitcast(builder.gep(array.data, [at]), vector.as_pointer())

        def repeat(at: Any) -> Any:
            one = builder.load(builder.gep(x.data, [at]))
            return builder.shuffle_vector(
                builder.insert_element(undefined, one, ir.IntType(32)(0)), undefined, first
            )

        def add(start: int) -> None:
            columns = range(start, start + width, _LANES)
            places = [
                [point(sums, index(row * _COLUMNS + column)) for column in columns] for row in range(_ROWS)
            ]
            held = [
                [cgutils.alloca_once_value(builder, builder.load(place, align=8)) for place in row]
                for row in places
            ]
            with cgutils.for_range(builder, n_in) as loop:
                row = builder.mul(loop.index, index(_COLUMNS))
                factors = [
                    builder.load(point(weights, builder.add(row, index(column))), align=8)
                    for column in columns
                ]
                for m, line in enumerate(held):
                    value = repeat(builder.add(builder.mul(n_in, index(m)), loop.index))
                    for place, factor in zip(line, factors, strict=True):
                        builder.store(builder.fadd(builder.load(place), builder.fmul(value, factor)), place)
            for row, line in zip(places, held, strict=True):
                for place, value in zip(row, line, strict=True):
                    builder.store(builder.load(value), place, align=8)

        for start in range(0, _COLUMNS, width):
            add(start)
        return context.get_dummy_value()

    @intrinsic
    def add_products(_: Any, x: Any, weights: Any, sums: Any) -> Any:
        return types.void(x, weights, sums), generate

    return add_products


@built_helper(_build_add_products)
def _add_products(x: Array, weights: Array, sums: Array) -> None:
    """Add x @ weights to the sums, input by input; for 4 samples and 16 outputs."""
    for i in range(len(weights)):
        sums += x[:, i, None] * weights[i]


@helper
def _unmix_wide(x: Samples, unmixing: Array, offset: Array, out: Samples) -> None:
    """Apply `unmix` to four samples and sixteen outputs at a time."""
    n_samples, n_in = x.shape
    n_out = unmixing.shape[2]
    n_panels = (n_out + _COLUMNS - 1) // _COLUMNS
    weights, starts = np.zeros((n_panels, n_in, _COLUMNS)), np.zeros((n_panels, _COLUMNS))
    for n in range(n_out):
        starts[n // _COLUMNS, n % _COLUMNS] = offset[n]
        for i in range(n_in):
            weights[n // _COLUMNS, i, n % _COLUMNS] = unmixing[0, i, n]
    tile, sums = np.zeros((_ROWS, n_in)), np.zeros((_ROWS, _COLUMNS))
    for start in range(0, n_samples, _ROWS):
        size = min(_ROWS, n_samples - start)
        for m in range(size):
            for i in range(n_in):
                tile[m, i] = x[start + m, i]
        for panel in range(n_panels):
            for m in range(_ROWS):
                for n in range(_COLUMNS):
                    sums[m, n] = starts[panel, n]
            _add_products(tile, weights[panel], sums)
            first = panel * _COLUMNS
            for m in range(size):
                if first + _COLUMNS <= n_out:  # a loop of known length is several times as fast
                    for n in range(_COLUMNS):
                        out[start + m, first + n] = sums[m, n]
                else:
                    for n in range(n_out - first):
                        out[start + m, first + n] = sums[m, n]


@helper
def _sum_tile(x: Array, unmixing: Array, offset: Array, n: int, sources: Array) -> None:
    """Apply `_sum_one` to output `n` of many samples; arrays of samples are (channels, samples) here."""
    n_in = unmixing.shape[1]
    fours = n_in - n_in % 4
    for m in range(_TILE):
        sources[n, m] = offset[n]
    for i in range(0, fours, 4):
        p, q = unmixing[0, i, n], unmixing[0, i + 1, n]
        r, s = unmixing[0, i + 2, n], unmixing[0, i + 3, n]
        for m in range(_TILE):
            two = (sources[n, m] + x[i, m] * p) + x[i + 1, m] * q
            sources[n, m] = (two + x[i + 2, m] * r) + x[i + 3, m] * s
    for i in range(fours, n_in):
        p = unmixing[0, i, n]
        for m in range(_TILE):
            sources[n, m] += x[i, m] * p


@helper
def _unmix_narrow(x: Samples, unmixing: Array, offset: Array, out: Samples) -> None:
    """Apply `unmix` to rows that are too short for vector registers, by transposing tiles of samples."""
    n_samples, n_in = x.shape
    n_out = unmixing.shape[2]
    transposed, sources = np.zeros((n_in, _TILE)), np.empty((n_out, _TILE))
    for start in range(0, n_samples, _TILE):
        size = min(_TILE, n_samples - start)
        for m in range(size):
            for i in range(n_in):
                transposed[i, m] = x[start + m, i]
        for n in range(n_out):
            _sum_tile(transposed, unmixing, offset, n, sources)
        for m in range(size):
            for n in range(n_out):
                out[start + m, n] = sources[n, m]


@kernel(
    *_declare_precisions(
        lambda real: signature(
            "void", array_type(real, 2, readonly=True), _R3, _R1, "int64", array_type(real, 2)
        )
    ),
    substitute=substitutes.unmix,
)
def unmix(x: Samples, unmixing: Array, offset: Array, start: int, out: Samples) -> None:
    """Fill out[m] = unmixing.T @ x[m] + offset; unmixing is (periods, inputs, outputs).

    `start` is the index of the first sample.
    """
    n_samples = x.shape[0]
    periods, _, n_out = unmixing.shape
    if periods == 1 and n_samples >= (_TILE if n_out < _WIDE else _FEWEST):
        if n_out < _WIDE:
            _unmix_narrow(x, unmixing, offset, out)
        else:
            _unmix_wide(x, unmixing, offset, out)
        return
    row = np.empty(n_out)
    for m in range(n_samples):
        _sum_one(x, m, unmixing, (start + m) % periods, offset, row)
        for n in range(n_out):
            out[m, n] = row[n]


@helper
def _unmix_triple(x: Samples, weight: float, out: Samples) -> None:
    """Apply `unmix_complement` to three channels in order, with parallel loads and stores."""
    flat, flat_out = x.reshape(-1), out.reshape(-1)
    for m in range(x.shape[0]):
        a, b, c = np.float64(flat[3 * m]), np.float64(flat[3 * m + 1]), np.float64(flat[3 * m + 2])
        mean = (a + b + c) * weight
        flat_out[3 * m] = mean - a
        flat_out[3 * m + 1] = mean - b
        flat_out[3 * m + 2] = mean - c


@kernel(
    *_declare_precisions(
        lambda real: signature(
            "void",
            array_type(real, 2, readonly=True),
            array_type("int64", 1, readonly=True),
            "boolean",
            "float64",
            array_type(real, 2),
        )
    ),
    substitute=substitutes.unmix_complement,
)
def unmix_complement(x: Samples, cut: Indices, in_order: bool, weight: float, out: Samples) -> None:
    """Fill out[m, n] = weight * (sum of x[m]) - x[m, cut[n]], for W of ones minus a permutation.

    `in_order` states that cut[n] = n. The sum is split into four independent partial sums, which avoids
    waiting for each addition. Their composition does not depend on the block.
    """
    n_samples, n_channels = x.shape
    if in_order and n_channels == 3:
        _unmix_triple(x, weight, out)
        return
    whole = n_channels - n_channels % 4
    for m in range(n_samples):
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for i in range(0, whole, 4):
            first += np.float64(x[m, i])
            second += np.float64(x[m, i + 1])
            third += np.float64(x[m, i + 2])
            fourth += np.float64(x[m, i + 3])
        for i in range(whole, n_channels):
            first += np.float64(x[m, i])
        mean = ((first + second) + (third + fourth)) * weight
        if in_order:
            for n in range(n_channels):
                out[m, n] = mean - x[m, n]
        else:
            for n in range(n_channels):
                out[m, n] = mean - x[m, cut[n]]
