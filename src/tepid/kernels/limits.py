"""Numbers that both tiers share."""

# Up to here rows side by side are faster, beyond it classes side by side.
FEW_CLASSES = 112
# The same for `served_sums`, which has one node.
FEW_SERVED = 20
# Stands for a class that takes no part: its exponential is 0, and its square still a number.
ABSENT = -1e18
# A class that is there, however far below.
FARTHEST = -1e17
# A softmax value is zero below exp(UNDERFLOW) of its row's largest.
UNDERFLOW = -87.0
# The kinds of rows in a histogram of member_sums: predicted k, added to M_k, not in M_k.
PREDICTED, ADDED, REST = 0, 1, 2
