import numpy as np
import pytest
from scipy import stats

from tallyfold.kernels.fused.draws import philox, uniform_at

KNOWN = [  # from Random123's kat_vectors, philox4x32-10
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    words = philox(*(np.uint64(word) for word in (*counter, *key)))
    assert tuple(int(word) for word in words) == expected


@pytest.mark.parametrize("varying", range(4))
def test_neighbouring_addresses_give_independent_uniforms(varying):
    draws = np.empty(20_000)
    for i in range(len(draws)):
        address = [np.uint64(7)] * 4
        address[varying] = np.uint64(i)
        draws[i] = uniform_at(*address)
    assert stats.kstest(draws, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03
