"""One member of a count head in training: AdamW with warm-up and a cosine to zero.

Inputs that come from the same cells say nearly the same: steps are taken in decorrelated inputs,
where they need half as many. The network's weights are those of the inputs themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.inference.head.recipe import Recipe
from tallyfold.kernels.blas import one_blas_thread
from tallyfold.kernels.head_network import HeadNetwork, loss_gradient

Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

DECAYS = 0.9, 0.99
NEW_INPUTS = 0.3
STRIDE = 7919
"""A prime: how much further each pass over the rows begins."""
MOST_LOOKED_AT = 20_000
"""Held-out cells that decide when to stop; all decide whether a stage is kept."""
LEAST_RIDGE, RIDGE_CELLS = 0.03, 40_000
"""What is added to variances of decorrelated inputs: cells over cells, so that steps for few cells
do not go where inputs hardly vary."""
SHOWING = 1 << 15
"""The first rows of the drawn order, which show how inputs vary."""
HIDDEN = 1 / 32
"""The share of cells in each step that do not know some of their labels."""


class Member(NamedTuple):
    """A network's parameters on their way, and the running means of AdamW."""

    params_P: Singles
    mean_P: Singles
    square_P: Singles


class Unknown(NamedTuple):
    """What networks read where labels are unknown, for some sets (S) of axes.

    Attributes
    ----------
    hidden_SD
        Which inputs say nothing then.
    input_SD
        What they are.
    """

    hidden_SD: npt.NDArray[np.bool_]
    input_SD: Singles

    def hide(self, z_BD: Singles, step: int) -> Singles:
        """Return a step's rows of inputs, of which the first do not know some labels, in turns."""
        n_hidden = int(len(z_BD) * HIDDEN)
        if n_hidden == 0:
            return z_BD
        number_H = (step * n_hidden + np.arange(n_hidden)) % len(self.hidden_SD)
        z_BD = z_BD.copy()
        np.copyto(z_BD[:n_hidden], self.input_SD[number_H], where=self.hidden_SD[number_H])
        return z_BD


def decorrelation(z_ND: Singles) -> Singles:
    """Return the symmetric matrix that makes inputs nearly uncorrelated, of variance one."""
    some_CD = z_ND[:SHOWING].astype(np.float64)
    ridge = max(LEAST_RIDGE, RIDGE_CELLS / max(len(z_ND), 1))
    with one_blas_thread():
        variance_D, turn_DD = np.linalg.eigh(some_CD.T @ some_CD / max(len(some_CD), 1))
        spread_D = np.sqrt(np.maximum(variance_D, 0) + ridge)
        turned_DD: Singles = ((turn_DD / spread_D) @ turn_DD.T).astype(np.float32)
    return turned_DD


def turn(network: HeadNetwork, params_P: Singles, turn_DD: Singles) -> None:
    """Multiply the weights of inputs, where they are."""
    w1, _, w2, _ = network.unpack(params_P)
    for weights_DK in (w1, w2[network.n_hidden :]):
        weights_DK[:] = turn_DD @ weights_DK


def first_member(network: HeadNetwork, log_base_B: Singles, recipe: Recipe, seed: int) -> Member:
    """Return a network that predicts the histogram of all counts, nearly."""
    rng = np.random.default_rng([seed, 7])
    params_P = np.zeros(network.n_params, dtype=np.float32)
    w1, b1, w2, b = network.unpack(params_P)
    w1[:] = rng.standard_normal(w1.shape) * np.sqrt(1 / network.n_inputs)
    b1[:] = rng.standard_normal(b1.shape) * 0.1
    w2[: network.n_hidden] = rng.standard_normal((network.n_hidden, w2.shape[1]))
    w2 *= recipe.first_scale
    b[:] = log_base_B
    return Member(params_P, np.zeros_like(params_P), np.zeros_like(params_P))


def widened(
    member: Member, network: HeadNetwork, smaller: HeadNetwork, params_P: Singles, old_D: Ints
) -> Member:
    """Return a network with more inputs that begins near a smaller one.

    `old_D` are the positions of the smaller one's inputs. New inputs reach the hidden units by the
    member's own first weights, made small.
    """
    w1, b1, w2, b = network.unpack(member.params_P)
    old_w1, old_b1, old_w2, old_b = smaller.unpack(params_P)
    w1 *= NEW_INPUTS
    w1[old_D], b1[:], b[:] = old_w1, old_b1, old_b
    w2[:] = 0
    w2[: network.n_hidden] = old_w2[: network.n_hidden]
    w2[network.n_hidden + old_D] = old_w2[network.n_hidden :]
    return member


def held_out_rows(n_cells: int, n_first: int, member: int, recipe: Recipe) -> slice:
    """Return the rows a member is scored on: cells stand in a drawn order, so a range will do.

    If some cells stand first, those are the first member's.
    """
    width = int(n_cells * recipe.held_out)
    if n_first == 0 or recipe.n_members == 1:
        return slice(member * width, (member + 1) * width)
    if member == 0:
        return slice(0, n_first)
    width = min(width, (n_cells - n_first) // (recipe.n_members - 1))
    return slice(n_first + (member - 1) * width, n_first + member * width)


def advance(
    member: Member,
    network: HeadNetwork,
    turn_DD: Singles,
    z_ND: Singles,
    bin_N: Ints,
    held_out: slice,
    recipe: Recipe,
    first_step: int,
    unknown: Unknown,
) -> Member:
    """Train for the steps up to the next look, on all rows but the held-out ones.

    `turn_DD` is what `decorrelation` returned, `unknown` what some rows of each step do not know.
    """
    if recipe.steps == 0:
        return member
    params_P, mean_P, square_P = (array.copy() for array in member)
    gradient_P, decayed_P = np.empty_like(params_P), _decayed(network)
    n_rows = len(bin_N) - (held_out.stop - held_out.start)
    batch = min(recipe.batch, n_rows)
    per_pass = n_rows // batch
    keep, keep_square = DECAYS
    for step in range(first_step, min(first_step + recipe.steps_per_look, recipe.steps)):
        passes, number = divmod(step, per_pass)
        shift = passes * STRIDE % (n_rows - per_pass * batch + 1)
        rows = _rows(number * batch + shift, batch, held_out)
        z_BD = unknown.hide(z_ND[rows], step)
        loss_gradient(network, params_P, z_BD, bin_N[rows], gradient_P)
        turn(network, gradient_P, turn_DD)
        mean_P += (1 - keep) * (gradient_P - mean_P)
        square_P += (1 - keep_square) * (gradient_P * gradient_P - square_P)
        share = min(1.0, (step + 1) / recipe.warm_up)
        share *= 0.5 * (1 + np.cos(np.pi * step / recipe.steps))
        step_P = mean_P / (np.sqrt(square_P / (1 - keep_square ** (step + 1))) + 1e-8)
        turn(network, step_P, turn_DD)
        step_P *= np.float32(share * recipe.rate / (1 - keep ** (step + 1)))
        step_P += np.float32(share * recipe.decay) * decayed_P * params_P
        params_P -= step_P
    return Member(params_P, mean_P, square_P)


def _rows(start: int, batch: int, held_out: slice) -> slice | Ints:
    """Return rows from `start` on, as if the held-out ones were not there."""
    if start + batch <= held_out.start:
        return slice(start, start + batch)
    width = held_out.stop - held_out.start
    if start >= held_out.start:
        return slice(start + width, start + width + batch)
    rows_B = np.arange(start, start + batch)
    return np.where(rows_B < held_out.start, rows_B, rows_B + width)


def _decayed(network: HeadNetwork) -> Singles:
    """Return one for weights, zero for biases."""
    ones = [1.0, 0.0, 1.0, 0.0]
    return np.repeat(np.array(ones, dtype=np.float32), network.sizes)
