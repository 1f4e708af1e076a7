"""Two ideas beyond the count head, tried: neighbours, and attention over an entity's cells.

    python benchmarks/try_amount_ideas.py --data FOLDER [--tensors NAMES] [--splits 0,1]

A head is learned on four fifths of the training cells. What it leaves of ln y, its residuals out of
fold, goes into pooled features of the last fifth, where a tilt of the head's probabilities is
learned: p(v) exp(t f(v)), t linear in features, f two functions of the value. For the test part
head and residuals are those of all training cells, the tilt is the one learned before.
*recalibrated* is a tilt by the same numbers at every cell: what is gained without any feature;
*pooled alike* is attention whose weights are all the same. Gains are of the mean log pmf given
y >= 1, with standard errors over cells; `kept` says whether the training cells themselves say that
an idea surely helps. docs/results/amounts.md has the table.
"""

import argparse
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import minimize
from scipy.sparse.linalg import svds

import tallyfold as tf
from kept_rows import limited_to, listed
from results_amounts import TENSORS, TEST_SIZE
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import run_loop
from tallyfold.inference.head.cells import HeadCells
from tallyfold.inference.head.step import head_phases
from tallyfold.posterior.count_head import CountHead, residual_functions, with_base

TRIED = ["grocery", "movie_rating", "aiv5_rating"]
PULL, LEAST_SHARED, MOST_PAIRS = 2.0, 2, 30_000_000
MOST_POOLED, MOST_TRAINED, N_EPOCHS = 32, 40_000, 10
RIDGES = (1.0, 10.0, 100.0, 1000.0)


class Learned(NamedTuple):
    """A head, and the cells it knows with what it leaves of them, out of fold."""

    head: CountHead
    indices_NM: np.ndarray
    residual_N: np.ndarray
    shape: tuple[int, ...]


def learn(cells):
    """Learn a head from cells."""
    drawn = HeadCells.of(TrainingCells(cells), "auto", 0)
    phases = head_phases(drawn, 0)
    outcome = run_loop(phases)
    step = phases[-1].step
    head = step.head_of(outcome.state)
    source = step if len(head.stages) == 2 else step.first
    z_ND = source.inputs(outcome.state)[1]
    prob_NB = with_base(head.stages[-1].probabilities(head.shapes_QB, z_ND), head.base_B)
    log_B = residual_functions(head.bins, head.base_B)[:, 0]
    residual_N = log_B[drawn.drawn_bin_N] - prob_NB @ log_B
    return Learned(head, drawn.indices_NM[drawn.order_N], residual_N, cells.shape)


class Asked(NamedTuple):
    """Cells to be predicted: what the head says of them, and their values."""

    indices_NM: np.ndarray
    prob_NB: np.ndarray
    bin_N: np.ndarray
    function_B2: np.ndarray

    @classmethod
    def of(cls, learned, cells):
        head = learned.head
        prob_NB = head.distribution(cells.indices).prob_NB
        function_B2 = residual_functions(head.bins, head.base_B)
        return cls(cells.indices, prob_NB, head.bins.bin_of(cells.counts), function_B2)

    def some(self, rows):
        return Asked(self.indices_NM[rows], self.prob_NB[rows], self.bin_N[rows], self.function_B2)


# -- the tilt -------------------------------------------------------------------------------------


def tilt_scores(asked, tilt_N2):
    """Return the log probabilities of cells' bins after a tilt, and the tilted probabilities."""
    log_NB = np.log(asked.prob_NB) + tilt_N2 @ asked.function_B2.T
    log_NB -= np.logaddexp.reduce(log_NB, axis=1, keepdims=True)
    return log_NB[np.arange(len(log_NB)), asked.bin_N], np.exp(log_NB)


def fit_tilt(asked, x_NF, ridge):
    """Return the weights of features for both functions of the value."""
    x_NF = np.hstack([np.ones((len(x_NF), 1)), x_NF])
    pull_F1 = np.full((x_NF.shape[1], 1), ridge)
    pull_F1[0] = 0

    def loss(flat):
        weight_F2 = flat.reshape(-1, 2)
        score_N, prob_NB = tilt_scores(asked, x_NF @ weight_F2)
        slope_N2 = prob_NB @ asked.function_B2 - asked.function_B2[asked.bin_N]
        penalty = 0.5 * np.sum(pull_F1 * weight_F2**2)
        return penalty - score_N.sum(), (x_NF.T @ slope_N2 + pull_F1 * weight_F2).ravel()

    start = np.zeros(2 * x_NF.shape[1])
    return minimize(loss, start, jac=True, method="L-BFGS-B").x.reshape(-1, 2)


def tilted(asked, x_NF, weight_F2):
    return tilt_scores(asked, weight_F2[0] + x_NF @ weight_F2[1:])[0]


def chosen_tilt(asked, x_NF):
    """Choose the ridge by five folds; return weights, and each cell's score out of fold."""
    fold_N = np.random.default_rng(0).integers(5, size=len(x_NF))
    found = {}
    for ridge in RIDGES if x_NF.shape[1] else RIDGES[:1]:
        score_N = np.empty(len(x_NF))
        for fold in range(5):
            own_N = fold_N == fold
            weight_F2 = fit_tilt(asked.some(~own_N), x_NF[~own_N], ridge)
            score_N[own_N] = tilted(asked.some(own_N), x_NF[own_N], weight_F2)
        found[ridge] = score_N
    best = max(found, key=lambda ridge: found[ridge].mean())
    return fit_tilt(asked, x_NF, best), found[best]


# -- neighbours -----------------------------------------------------------------------------------


def profiles(learned, axis, context):
    """Return the mean residual of each entity with each label of another axis, pulled to zero."""
    rows, columns = learned.indices_NM[:, axis], learned.indices_NM[:, context]
    shape = learned.shape[axis], learned.shape[context]
    sums = sp.csr_matrix((learned.residual_N, (rows, columns)), shape)
    times = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape)
    sums.data /= times.data + PULL
    return sums


def likeness(profile):
    """Return the cosines of entities' residuals, pulled to zero where few labels are shared."""
    there = profile.copy()
    there.data[:] = 1
    shared, like = (there @ there.T).tocsr(), (profile @ profile.T).tocsr()
    shared.sort_indices()
    like.sort_indices()
    size_D = np.sqrt(np.asarray(profile.multiply(profile).sum(axis=1)).ravel()) + 1e-9
    like = like.tocoo()
    like.data *= shared.data / (shared.data + 10) / size_D[like.row] / size_D[like.col]
    like.data[(shared.data < LEAST_SHARED) | (like.row == like.col)] = 0
    like = like.tocsr()
    like.eliminate_zeros()
    return like


def neighbours(learned, asked):
    """Return, for pairs of axes, what entities like a cell's leave with the same other label."""
    features = []
    for axis, context in permutations(range(len(learned.shape)), 2):
        profile = profiles(learned, axis, context)
        if np.sum(np.diff(profile.tocsc().indptr).astype(float) ** 2) > MOST_PAIRS:
            features.append(np.zeros(len(asked.bin_N)))  # too many entities share a label
            continue
        like, by_label = likeness(profile), profile.T.tocsr()
        there = by_label.copy()
        there.data[:] = 1
        value_N = np.empty(len(asked.bin_N))
        for start in range(0, len(value_N), 2000):
            part = slice(start, start + 2000)
            own = like[asked.indices_NM[part, axis]]
            label_C = asked.indices_NM[part, context]
            sum_C = np.asarray(own.multiply(by_label[label_C]).sum(axis=1)).ravel()
            weight_C = np.asarray(abs(own).multiply(there[label_C]).sum(axis=1)).ravel()
            value_N[part] = sum_C / (weight_C + 0.2)
        features.append(value_N)
    return np.stack(features, axis=1)


# -- attention ------------------------------------------------------------------------------------


def directions(learned, axis):
    """Return unit vectors of an axis's entities: those that occur with the same labels are near."""
    parts = []
    for other in range(len(learned.shape)):
        if other != axis:
            pairs = learned.indices_NM[:, axis], learned.indices_NM[:, other]
            shape = learned.shape[axis], learned.shape[other]
            parts.append(sp.csr_matrix((np.ones(len(pairs[0])), pairs), shape).log1p())
    table = sp.hstack(parts).tocsr()
    left, size, _ = svds(table, k=min(16, min(table.shape) - 1), random_state=0)
    vector_DK = left * size
    return vector_DK / (np.linalg.norm(vector_DK, axis=1, keepdims=True) + 1e-9)


class Pooled(NamedTuple):
    """Some known cells of each asked cell's entity: how they relate to it, and their residuals."""

    relation_NLR: torch.Tensor
    residual_NL: torch.Tensor
    there_NL: torch.Tensor

    @classmethod
    def of(cls, learned, asked, axis, vectors):
        entity_N = learned.indices_NM[:, axis]
        order_N = np.lexsort((np.random.default_rng(0).random(len(entity_N)), entity_N))
        ends = np.searchsorted(entity_N[order_N], np.arange(learned.shape[axis] + 1))
        own_N = asked.indices_NM[:, axis]
        place_NL = ends[own_N][:, None] + np.arange(MOST_POOLED)
        there_NL = place_NL < ends[own_N + 1][:, None]
        cell_NL = order_N[np.where(there_NL, place_NL, 0)]
        relations = []
        for other, vector_DK in enumerate(vectors):
            if other == axis:
                continue
            theirs_NL = learned.indices_NM[cell_NL, other]
            ours_N1 = asked.indices_NM[:, other, None]
            relations.append(theirs_NL == ours_N1)
            near_NL = np.einsum("nk,nlk->nl", vector_DK[ours_N1[:, 0]], vector_DK[theirs_NL])
            relations.append(near_NL)
            relations.append(np.log1p(np.abs(theirs_NL - ours_N1)) / 5)  # days stand in order
        relation_NLR = np.stack(relations, axis=2).astype(np.float32)
        residual_NL = np.where(there_NL, learned.residual_N[cell_NL], 0).astype(np.float32)
        return cls(*map(torch.from_numpy, (relation_NLR, residual_NL, there_NL)))

    def some(self, rows):
        return Pooled(*(each[rows] for each in self))


class Attention(torch.nn.Module):
    """Weighs known cells of each of a cell's entities; or takes them all alike."""

    def __init__(self, widths, weighs):
        super().__init__()
        self.weighs = weighs
        self.score = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(w, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
            for w in widths
        )
        self.log_pull = torch.nn.Parameter(torch.ones(len(widths)))
        self.out = torch.nn.Linear(len(widths), 2)
        torch.nn.init.zeros_(self.out.weight)
        torch.nn.init.zeros_(self.out.bias)

    def forward(self, pooled):
        features = []
        for number, each in enumerate(pooled):
            weight_NL = each.there_NL.float()
            if self.weighs:
                score_NL = self.score[number](each.relation_NLR)[..., 0]
                weight_NL = weight_NL * torch.exp(score_NL.clamp(-6, 6))
            sums_N = (weight_NL * each.residual_NL).sum(1)
            features.append(sums_N / (weight_NL.sum(1) + torch.exp(self.log_pull[number])))
        return self.out(torch.stack(features, 1))


def attended(model, pooled):
    """Return the tilts of all cells, some at a time."""
    with torch.no_grad():
        starts = range(0, len(pooled[0].there_NL), 8192)
        parts = [model([each.some(slice(s, s + 8192)) for each in pooled]) for s in starts]
        return torch.cat(parts).double().numpy()


def train_attention(asked, pooled, weighs):
    """Train on four fifths of cells, stop on the last; return the model and its scores there."""
    torch.manual_seed(0)
    model = Attention([each.relation_NLR.shape[2] for each in pooled], weighs)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(1)
    order_N = rng.permutation(len(asked.bin_N))
    n_held = len(order_N) // 5
    held_N, own_N = order_N[:n_held], order_N[n_held:]
    log_NB = torch.from_numpy(np.log(asked.prob_NB)).float()
    function_2B = torch.from_numpy(asked.function_B2.T).float()
    bin_N = torch.from_numpy(asked.bin_N)
    best, state = -np.inf, None
    for _ in range(N_EPOCHS):
        for part in np.array_split(rng.permutation(own_N), max(1, len(own_N) // 512)):
            tilt_C2 = model([each.some(part) for each in pooled])
            logits = log_NB[part] + tilt_C2 @ function_2B
            loss = torch.nn.functional.cross_entropy(logits, bin_N[part])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        tilt_N2 = attended(model, [each.some(held_N) for each in pooled])
        score_N = tilt_scores(asked.some(held_N), tilt_N2)[0]
        if score_N.mean() > best:
            best, state, kept_N = score_N.mean(), model.state_dict(), score_N
            state = {name: value.clone() for name, value in state.items()}
    model.load_state_dict(state)
    return model, held_N, kept_N


# -- the table ------------------------------------------------------------------------------------


def with_error(gain_N):
    return f"{gain_N.mean():+.4f} ± {gain_N.std() / np.sqrt(len(gain_N)):.4f}"


def sure(gain_N):
    return "yes" if gain_N.mean() > gain_N.std() / np.sqrt(len(gain_N)) else "no"


def try_ideas(folder, name, split):
    """Print a row of the table for every idea."""
    source = TENSORS[name]
    tensor = tf.read_counts(folder / f"{source.file}.parquet", axes=source.axes, value="count")
    train, test = tf.split(tensor, TEST_SIZE, random_state=split)
    known, fifth = tf.split(train, 0.2, random_state=split + 100)
    first, last = learn(known), learn(train)
    taught, asked = Asked.of(first, fifth), Asked.of(last, test)
    plain_N, plain_taught_N = (
        each.prob_NB[np.arange(len(each.bin_N)), each.bin_N] for each in (asked, taught)
    )
    base_N, base_taught_N = np.log(plain_N), np.log(plain_taught_N)

    def row(idea, gain_N, gain_taught_N):
        told = f"| {name} | {split} | {idea} | {with_error(gain_N)} | {sure(gain_taught_N)} |"
        print(told, flush=True)

    makers = {
        "recalibrated": lambda learned, cells: np.empty((len(cells.bin_N), 0)),
        "neighbours": neighbours,
    }
    for idea, make in makers.items():
        x_NF = make(first, taught)
        spread_F = x_NF.std(axis=0) + 1e-9
        weight_F2, score_N = chosen_tilt(taught, x_NF / spread_F)
        gain_N = tilted(asked, make(last, asked) / spread_F, weight_F2) - base_N
        row(idea, gain_N, score_N - base_taught_N)
    some_N = np.random.default_rng(2).permutation(len(taught.bin_N))[:MOST_TRAINED]
    taught, base_taught_N = taught.some(some_N), base_taught_N[some_N]
    pooled, pooled_asked = (
        [Pooled.of(learned, cells, axis, vectors) for axis in range(len(vectors))]
        for learned, cells in ((first, taught), (last, asked))
        for vectors in [[directions(learned, axis) for axis in range(len(learned.shape))]]
    )
    for idea, weighs in {"pooled alike": False, "attention": True}.items():
        model, held_N, score_N = train_attention(taught, pooled, weighs)
        gain_N = tilt_scores(asked, attended(model, pooled_asked))[0] - base_N
        row(idea, gain_N, score_N - base_taught_N[held_N])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tensors", type=listed(TENSORS), default=TRIED)
    parser.add_argument("--splits", type=listed(range(5), int), default=[0, 1])
    given = parser.parse_args()
    print("| tensor | split | idea | gain | kept |\n|---|---|---|---|---|", flush=True)
    with limited_to(1):
        for name in given.tensors:
            for split in given.splits:
                try_ideas(given.data, name, split)


if __name__ == "__main__":
    main()
