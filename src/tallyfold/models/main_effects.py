"""MainEffects: one multiplicative effect per entity, the floor every factorization must beat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from tallyfold.models.bptf import BPTF, VARIATIONAL_RULES
from tallyfold.models.parameters import Rule


class MainEffects(BPTF):
    """Rates that are a product of one effect per entity: BPTF with a single component.

    Parameters are those of `BPTF` without ``n_components``.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> tf.MainEffects(max_iter=20).fit(tensor).posterior_.n_components
    1
    """

    name: ClassVar[str] = "main-effects"
    rules: ClassVar[Mapping[str, Rule]] = VARIATIONAL_RULES

    def __init__(
        self,
        *,
        zeros: Literal["missing", "observed"] = "missing",
        likelihood: Literal["poisson", "negative-binomial"] = "poisson",
        truncated: bool | None = None,
        dispersion: float | None = None,
        prior_shape: float = 1.0,
        prior_rate: float | None = None,
        max_iter: int = 200,
        tol: float = 1e-5,
        validation: float | None = 0.1,
        patience: int = 10,
        random_state: int = 0,
        backend: str = "auto",
        device: str = "cpu",
    ) -> None:
        super().__init__(
            n_components=1,
            zeros=zeros,
            likelihood=likelihood,
            truncated=truncated,
            dispersion=dispersion,
            prior_shape=prior_shape,
            prior_rate=prior_rate,
            max_iter=max_iter,
            tol=tol,
            validation=validation,
            patience=patience,
            random_state=random_state,
            backend=backend,
            device=device,
        )

    @property
    def _rank(self) -> int:
        return 1
