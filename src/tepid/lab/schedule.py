"""The learning rate at every step: a function of the step alone, of which nothing is saved."""

from tepid.lab.recipe import Recipe

_RISE = 0.3  # the part of a cycle in which the rate rises


def rate(recipe: Recipe, step: int, steps: int) -> float:
    """The rate of the `step`-th of so many steps in all, counted from 0.

    `steps` multiplies the rate by `factor` at each milestone, after `warmup_steps` steps at
    `warmup_rate`; `one-cycle` rises linearly to the rate over 30 % of the steps and falls to 0.

    >>> from tepid.lab import named
    >>> [round(rate(named("lenet5-mnist"), step, 100), 6) for step in (0, 49, 50, 75)]
    [0.05, 0.05, 0.005, 0.0005]
    """
    if recipe.schedule == "one-cycle":
        done = (step + 0.5) / steps
        return recipe.rate * min(done / _RISE, (1 - done) / (1 - _RISE))
    if step < recipe.warmup_steps:
        return recipe.warmup_rate
    passed = sum(step >= milestone * steps for milestone in recipe.milestones)
    return recipe.rate * recipe.factor**passed
