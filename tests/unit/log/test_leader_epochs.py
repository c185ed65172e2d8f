"""Checkpoint of leader epochs: valid entries and truncation."""

import pytest

from kohort.log.epochs import LeaderEpochs

LATEST = 2**30 - 1


def written(*entries):
    lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    "entries",
    [(), ((0, 0),), ((0, 10), (1, 20)), ((5, 1), (6, 2)), ((0, 0), (LATEST, 1))],
    ids=["none", "one", "offsets above all epochs", "epochs above all offsets", "the latest that a log may have"],
)
def test_increasing_epoch_entries_are_parsed(entries):
    assert LeaderEpochs.parse(written(*entries)).entries == list(entries)


@pytest.mark.parametrize(
    "entries",
    [
        ((1, 0), (1, 5)),
        ((3, 0), (2, 5)),
        ((3, 9), (2, 10)),
        ((0, 5), (1, 5)),
        ((0, 9), (1, 3)),
        ((0, 0), (1, 5), (1, 6)),
    ],
    ids=["an epoch twice", "an earlier one", "an earlier one, far on", "an offset twice", "an earlier offset", "later"],
)
def test_decreasing_epoch_entries_are_rejected(entries):
    with pytest.raises(ValueError, match="entries do not increase"):
        LeaderEpochs.parse(written(*entries))


@pytest.mark.parametrize(
    "entries",
    [((-1, 0), (0, 5)), ((0, -1), (1, 5)), ((0, 0), (LATEST + 1, 5))],
    ids=["an epoch below 0", "an offset below 0", "an epoch of a flipped bit"],
)
def test_out_of_range_epoch_entry_is_rejected(entries):
    with pytest.raises(ValueError, match="epoch or offset out of range"):
        LeaderEpochs.parse(written(*entries))


def test_implausible_epoch_is_not_assigned():
    epochs = LeaderEpochs()

    begun = [epochs.assign(LATEST, 0), epochs.assign(LATEST + 1, 5)]

    assert begun == [True, False]
    assert epochs.entries == [(LATEST, 0)]


def test_epochs_are_assigned_in_increasing_order():
    epochs = LeaderEpochs([(2, 0)])

    begun = [epochs.assign(2, 5), epochs.assign(1, 5), epochs.assign(3, 5)]

    assert begun == [False, False, True]
    assert epochs.entries == [(2, 0), (3, 5)]


def test_truncation_drops_epochs_and_returns_true_for_a_changed_start():
    epochs = LeaderEpochs([(0, 0), (2, 10), (5, 20)])

    epochs.truncate_end(21)
    assert epochs.entries == [(0, 0), (2, 10), (5, 20)]
    epochs.truncate_end(20)
    assert epochs.entries == [(0, 0), (2, 10)]

    changed = [epochs.truncate_start(0), epochs.truncate_start(10), epochs.truncate_start(10)]
    assert changed == [False, True, False]
    assert epochs.entries == [(2, 10)]


def test_truncation_before_first_epoch_changes_nothing():
    epochs = LeaderEpochs([(2, 10)])

    assert [epochs.truncate_start(9)] == [False]
    assert epochs.entries == [(2, 10)]
