"""What topics and their folders may be called."""

import pytest

from kohort.errors import ApiError, ErrorCode
from kohort.log.topic_names import check_topic_name, doomed_folder, is_doomed, parse_folder, stray_folder


def test_a_topic_without_a_name_is_told_that_it_has_none():
    with pytest.raises(ApiError, match="a topic's name is empty") as refused:
        check_topic_name("")
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("make", [doomed_folder, stray_folder])
def test_the_folder_of_a_long_name_is_renamed_within_what_file_systems_take(make):
    name, ending = "n" * 249, make("o-0", 5).partition(".")[2]

    for partition in ("0", "9999"):
        renamed = make(f"{name}-{partition}", 5)
        assert len(renamed) == 255, "as much of the name stays as there is room for"
        assert renamed == f"{'n' * (255 - len(f'-{partition}.{ending}'))}-{partition}.{ending}"
        assert parse_folder(renamed) is None
    assert make("orders-12", 5) == f"orders-12.{5:032x}-{ending.partition('-')[2]}"
    assert is_doomed(make("orders-12", 5)) == (make is doomed_folder)
