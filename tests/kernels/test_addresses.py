"""Compiled kernels give the same bits wherever in memory their arrays and scratch rows lie.

A sum that the compiler may reorder is taken in vectors, or one by one where arrays may overlap. If
the loop that sums writes to memory as well, which of the two is run may depend on addresses.
"""

from functools import cache

import numpy as np
import pytest
from tests.kernels.conftest import make_problem

from tallyfold import kernels
from tallyfold.kernels.collapsed import collapsed_sums
from tallyfold.kernels.encoder import KINDS, Network, axis_encoder, layer_sizes
from tallyfold.kernels.evidence import evidence_gradient, evidence_weights, network_size
from tallyfold.kernels.fused.jit import jit
from tallyfold.kernels.neighbours import basket_sums
from tallyfold.kernels.row_products import row_products

N_CALLS = 1000
UNITS, SHIFTS = 8, 8
FAST = {"backend": "numba"}
TRUNCATED = {"likelihood": "truncated-negative-binomial", "dispersion": 0.7, **FAST}
TENSORS = {"3 axes, K = 3": ((8, 6, 5), 3), "4 axes, K = 7": ((5, 5, 4, 3), 7)}


@cache
def problem(tensor):
    sizes, n_components = TENSORS[tensor]
    return make_problem(sizes, 300, n_components, seed=0)


def weights_of(network, n_inputs, rng):
    """Return weights of an encoder that all components share."""
    weights = {}
    for kind in KINDS:
        for layer, (wide, narrow) in enumerate(layer_sizes(network, n_inputs)):
            weights[f"{kind}_weight_{layer}"] = rng.normal(0, 0.5, (1, wide, narrow))
            weights[f"{kind}_bias_{layer}"] = rng.normal(0, 0.5, (1, narrow))
    return weights


@cache
def encoder_of(tensor, activation):
    case, network = problem(tensor), Network(1, 4, activation, "softplus")
    weights = weights_of(network, len(case.factors), np.random.default_rng(1))
    return axis_encoder(case.layouts[0], network, **FAST), weights


def encoder_passes(activation):
    def run(tensor, new):
        case, (encoder, weights) = problem(tensor), encoder_of(tensor, activation)
        given = weights, new(case.factors), np.sqrt(case.counts_N)
        sums = encoder.forward(*given)
        return *sums, *encoder.backward(*given, *new(sums)).values()

    return run


def evidence(tensor, new):
    rng = np.random.default_rng(2)
    sizes = network_size(UNITS), (2, 50), (2, 50)
    network, cells, slopes = new([rng.normal(size=size) for size in sizes])
    gradient = evidence_gradient(network, cells, slopes, **FAST)
    return evidence_weights(network, cells, **FAST), gradient


def collapsed(tensor, new):
    case = problem(tensor)
    gate_N = np.linspace(0.5, 2, len(case.counts_N))
    found = collapsed_sums(
        new(case.factors), new(case.factors), case.layouts[0], 0.3, gate_N, **FAST
    )
    return *found.sums, found.latent_N, found.log_seen


def baskets(tensor, new):
    rng = np.random.default_rng(3)
    near_DL = np.sort(rng.permuted(np.tile(np.arange(12, dtype=np.int32), (12, 1)), axis=1)[:, :7])
    row_N, label_N = rng.integers(0, 4, 30), rng.integers(0, 12, 30).astype(np.int32)
    labels_E = np.tile(np.arange(12, dtype=np.int32), 4)
    given = new([row_N, label_N, np.arange(5) * 12, labels_E, near_DL, rng.normal(size=(12, 7))])
    return [basket_sums(*given, **FAST)]


def products(tensor, new):
    rng = np.random.default_rng(4)
    return [row_products(*new([rng.normal(size=(9, 11)), rng.normal(size=(11, 7))]), **FAST)]


def of_cells(kernel, n_sets=1, **options):
    """Return a call of a kernel that visits cells in any order."""

    def run(tensor, new):
        case = problem(tensor)
        counts = [case.counts_N] if n_sets == 2 else []
        sets = [new(case.factors) for _ in range(n_sets)]
        return [kernel(*sets, *new([case.indices_NM], "F"), *new(counts), **FAST | options)]

    return run


def of_axis(kernel, *arguments, n_sets=1, **options):
    """Return a call of a kernel that sums by entity."""

    def run(tensor, new):
        case = problem(tensor)
        sets = [new(case.factors) for _ in range(n_sets)]
        return kernel(*sets, case.layouts[0], *arguments, **FAST | options)

    return run


def axis_sums(tensor, new):
    weight_N = np.sin(np.arange(len(problem(tensor).counts_N)))
    return of_axis(kernels.axis_sums, *new([weight_N]))(tensor, new)


def one_set(tensor, new):
    case = problem(tensor)
    factors = new(case.factors)
    return kernels.bptf_axis_sums(factors, factors, case.layouts[0], **FAST)


CALLS = {
    "cell_rates": of_cells(kernels.cell_rates),
    "cell_bound": of_cells(kernels.cell_bound, 2, **TRUNCATED),
    "axis_sums": axis_sums,
    "share_sums": of_axis(kernels.share_sums),
    "bptf_axis_sums": of_axis(kernels.bptf_axis_sums, n_sets=2, **TRUNCATED),
    "bptf_axis_sums, one set": one_set,
    "allocate_axis": of_axis(kernels.allocate_axis, 1, 2),
    "collapsed_sums": collapsed,
    "evidence": evidence,
    "encoder, relu": encoder_passes("relu"),
    "encoder, softplus": encoder_passes("softplus"),
    "encoder, sigmoid": encoder_passes("sigmoid"),
    "basket_sums": baskets,
    "row_products": products,
}


class Memory:
    """Copies arrays to ever other addresses, and leaves gaps for what kernels allocate themselves.

    The gaps have the sizes of tables of factors and of rows of theirs, and lie side by side: what
    is read and what is written come close to each other without overlapping.
    """

    def __init__(self, sizes, n_components):
        self.rng, width = np.random.default_rng(0), -(-n_components // 4) * 4
        networks = network_size(UNITS) + SHIFTS
        self.tables = [*(sum(sizes) * n for n in (width, 2 * width)), networks]
        self.rows = [n_components, width, UNITS]
        self.kept = [self._pair() for _ in range(300)]
        self.gap = 0

    def _pair(self):
        return np.empty(self.rng.choice(self.tables)), scratch(int(self.rng.choice(self.rows)))

    def move(self):
        """Close the last gap, and leave another."""
        self.kept[self.gap] = self._pair()
        self.gap = int(self.rng.integers(len(self.kept)))
        self.kept[self.gap] = None

    def new(self, arrays, order="C"):
        """Return copies, each at some multiple of its numbers' size."""
        return [self._moved(array, order) for array in arrays]

    def _moved(self, array, order):
        start = int(self.rng.integers(SHIFTS))
        room = np.empty(array.size + SHIFTS, array.dtype)[start : start + array.size]
        moved = room.reshape(array.shape, order=order)
        moved[...] = array
        return moved


@jit
def scratch(size):
    """Allocate a row as kernels do."""
    return np.empty(size)


@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("name", CALLS)
def test_bits_do_not_depend_on_addresses(name, tensor):
    memory, seen = Memory(*TENSORS[tensor]), set()
    with kernels.use_threads(1):
        for _ in range(N_CALLS):
            memory.move()
            found = CALLS[name](tensor, memory.new)
            seen.add(b"".join(np.asarray(array).tobytes() for array in found))
    assert len(seen) == 1
