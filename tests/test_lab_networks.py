"""The networks have the sizes that their papers publish."""

import dataclasses

import pytest

import tepid
from tests.scripts import benchmark

torch = pytest.importorskip("torch", reason="the networks are of PyTorch")

from tepid.lab import networks  # noqa: E402  # after the skip


def _weights(network):
    return sum(weights.numel() for weights in network.parameters())


# In millions: Huang et al. (2017), table 2; He et al. (2016), table 6; Zagoruyko and Komodakis
# (2016), tables 4 and 5; to the digits that they print.
@pytest.mark.parametrize(
    ("network", "millions"),
    [
        (lambda: networks.densenet(40, 12, 10), 1.0),
        (lambda: networks.densenet(100, 12, 10), 7.0),
        (lambda: networks.densenet(100, 12, 10, compressed=True), 0.8),
        (lambda: networks.resnet(20, 10), 0.27),
        (lambda: networks.resnet(32, 10), 0.46),
        (lambda: networks.resnet(44, 10), 0.66),
        (lambda: networks.resnet(56, 10), 0.85),
        (lambda: networks.resnet(110, 10), 1.7),
        (lambda: networks.wide_resnet(40, 1, 10), 0.6),
        (lambda: networks.wide_resnet(40, 4, 10), 8.9),
        (lambda: networks.wide_resnet(16, 8, 10), 11.0),
        (lambda: networks.wide_resnet(28, 10, 10), 36.5),
    ],
)
def test_the_networks_have_as_many_weights_as_their_papers_say(network, millions):
    digits = len(str(millions).partition(".")[2])
    assert round(_weights(network()) / 1e6, digits) == millions


def test_the_networks_have_as_many_weights_as_by_hand():
    assert _weights(networks.lenet5(10)) == 61_706  # 156 + 2416 + 48,120 + 10,164 + 850
    convolutions = (  # in, out and 9 weights of each pair, a bias, and two of normalization
        (3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 256),
        (256, 512), *((512, 512),) * 5,
    )  # fmt: skip
    expected = sum(9 * a * b + 3 * b for a, b in convolutions) + 513 * 10
    assert _weights(networks.vgg16(10)) == expected == 14_728_266
    assert _weights(networks.resnet(110, 10)) == 1_727_962  # akamaster/pytorch_resnet_cifar10
    assert _weights(networks.densenet(100, 12, 10, compressed=True)) == 769_162
    # A depth of 6n + 2 and one of 6n + 4 are the same blocks.
    assert _weights(networks.wide_resnet(32, 4, 100)) == _weights(networks.wide_resnet(34, 4, 100))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(tepid.lab.names()) - {"resnet152-isic"}))
def test_every_recipe_has_a_network_that_gives_its_logits(name):
    recipe = tepid.lab.named(name)
    classes = 100 if recipe.data == "cifar100" else 10
    channels, size = (1, 28) if recipe.data == "mnist" else (3, 32)
    network = networks.build(recipe, classes, channels).eval()
    with torch.inference_mode():
        logits = network(torch.randn(2, channels, size, size))
    assert logits.shape == (2, classes)
    assert torch.isfinite(logits).all()
    assert not torch.equal(logits[0], logits[1])


@pytest.mark.slow
@pytest.mark.usefixtures("torchvision")
def test_the_network_of_the_lesions_is_torchvisions_with_a_new_head():
    network = networks.build(tepid.lab.named("resnet152-isic").quick(), 7, 3).eval()
    # 60.2 M published, with a head of 1000 classes in the place of 7.
    assert round((_weights(network) + (2048 + 1) * 993) / 1e6, 1) == 60.2
    with torch.inference_mode():
        assert network(torch.randn(1, 3, 224, 224)).shape == (1, 7)


@pytest.mark.usefixtures("torchvision")
def test_weights_of_imagenet_are_not_fetched_unasked(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(tepid.InputError, match=r"must be at .*resnet152.*, or --download, got"):
        networks.build(tepid.lab.named("resnet152-isic"), 7, 3)


def test_the_residual_network_is_that_of_another_implementation():
    pytest.importorskip("PIL", reason="the other one comes with a reader of images")
    other = benchmark("cifar").ResNet20()
    torch.manual_seed(4)
    for weights in (*other.parameters(), *other.buffers()):
        if weights.ndim == 1:  # normalization, which begins as if it were not there
            torch.nn.init.uniform_(weights, 0.1, 0.9)
    network = networks.resnet(20, 10)
    names, values = network.state_dict(), other.state_dict().values()
    network.load_state_dict(dict(zip(names, values, strict=True)))
    x = torch.randn(3, 3, 32, 32)
    with torch.inference_mode():
        logits = network.eval()(x)
        assert torch.allclose(logits, other.eval()(x), rtol=1e-4)
    assert logits.isfinite().all()


def test_a_residual_block_is_the_identity_where_its_weights_are_zero():
    block = networks.Residual(16, 32, 2).eval()
    for weights in (block.first.weight, block.second.weight):
        torch.nn.init.zeros_(weights)
    x = torch.rand(1, 16, 8, 8)
    out = block(x)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


def test_a_dense_layer_keeps_what_it_was_given():
    layer = networks.Dense(16, 12, 0.0, bottleneck=True).eval()
    x = torch.rand(2, 16, 4, 4)
    assert layer(x).shape == (2, 28, 4, 4)
    assert torch.equal(layer(x)[:, :16], x)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"network": "transformer"}, "network must be one of densenet, .*, got transformer"),
        ({"network": "resnet", "depth": 21}, r"depth must be 6n \+ 2 .*, got 21"),
        ({"network": "resnet", "depth": 2}, r"depth must be 6n \+ 2 .*, got 2"),
        ({"network": "densenet", "depth": 41, "width": 12}, r"depth must be 3n \+ 4 .*got 41"),
        ({"network": "densenet-bc", "depth": 43, "width": 12}, r"depth must be 6n \+ 4 .*got 43"),
        ({"network": "densenet", "depth": 40, "width": 0}, "width positive, got 40 and 0"),
        ({"network": "wide-resnet", "depth": 33, "width": 4}, r"depth must be 6n \+ 2 or .*got 33"),
    ],
)
def test_networks_that_do_not_exist_are_refused(settings, sentence):
    recipe = dataclasses.replace(tepid.lab.named("lenet5-mnist"), **settings)
    with pytest.raises(tepid.InputError, match=sentence):
        networks.build(recipe, 10, 3)
