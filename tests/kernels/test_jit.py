from tallyfold.kernels.fused.jit import jit


def test_a_kernel_without_a_place_for_its_cache_still_compiles():
    scope: dict = {}
    exec("def twice(x):\n    return 2 * x", scope)
    assert jit(scope["twice"])(3) == 6
