"""The schema notation: what a line means, and what is refused with its file and line."""

import pytest

from epoka.wire.notation import ANY_VERSION, ZERO_UUID, NotationError, Schema, Type, Versions, parse

FETCH = """\
# Fetch: what a consumer or a follower asks a leader for.
# Second line.

api 1 Fetch

# Asks.
request 4-17 flexible 12+
  replica_id: int32 0-14 = -1
  # The most bytes
  max_bytes: int32 3+ = 0x7fffffff   # in one answer
  topics: [FetchTopic]
    topic: string 0-12
    topic_id: uuid 13+!
    partitions: [FetchPartition]?7+
      partition: int32
  rack_id: string! 11+ = "a # b"
  cluster_id: string? 12+ @0 = null
  replica_state: ReplicaState 15+ @1
    replica_id: int32 = -1

response 4-17 flexible 12+
  forgotten: [FetchTopic]?
  records: records? = null
  ratio: float64 = 0.5
  done: bool = true
"""


def fields(schema: Schema, struct: str) -> dict[str, object]:
    return {field.name: field for field in schema.structs[struct].fields}


def refused(text: str) -> str:
    with pytest.raises(NotationError) as caught:
        parse(text, "some.msg")
    return str(caught.value)


def api(*lines: str) -> str:
    return "api 1 Some\nrequest 0-3 flexible 2+\n" + "\n".join(lines)


def test_an_api_names_its_request_and_response() -> None:
    schema = parse(FETCH, "fetch.msg")
    assert (schema.api_key, schema.api_name) == (1, "Fetch")
    assert [(section.name, section.key) for section in schema.sections] == [
        ("FetchRequest", 1),
        ("FetchResponse", 1),
    ]
    request = schema.sections[0]
    assert request.versions == Versions(4, 17)
    assert not request.flexible_at(11)
    assert request.flexible_at(12)


def test_comments_become_text_about_the_file_the_section_and_the_field() -> None:
    schema = parse(FETCH)
    assert schema.about == "Fetch: what a consumer or a follower asks a leader for.\nSecond line."
    assert schema.sections[0].struct.about == "Asks."
    assert fields(schema, "FetchRequest")["max_bytes"].about == "The most bytes in one answer"


def test_a_file_whose_comment_touches_the_api_line_has_that_comment() -> None:
    assert parse("# What it is.\napi 1 Some\nrequest 0-1\n  a: int8\n").about == "What it is."


def test_a_field_has_versions_a_default_a_tag_and_null() -> None:
    request = fields(parse(FETCH), "FetchRequest")
    assert request["replica_id"].versions == Versions(0, 14)
    assert request["replica_id"].default == -1
    assert request["max_bytes"].default == 0x7FFFFFFF
    assert request["cluster_id"].tag == 0
    assert request["cluster_id"].default is None
    assert request["cluster_id"].nullable_at(0)
    assert request["rack_id"].default == "a # b"
    partitions = fields(parse(FETCH), "FetchTopic")["partitions"]
    assert partitions.type == Type("FetchPartition", array=True)
    assert not partitions.nullable_at(6)
    assert partitions.nullable_at(7)
    assert partitions.versions == Versions(0, ANY_VERSION)


def test_defaults_are_zero_where_none_is_written() -> None:
    schema = parse(FETCH)
    assert fields(schema, "FetchTopic")["topic"].default == ""
    assert fields(schema, "FetchTopic")["topic_id"].default == ZERO_UUID
    assert fields(schema, "FetchTopic")["partitions"].default == ()
    assert fields(schema, "FetchRequest")["replica_state"].default is ...
    assert fields(schema, "FetchResponse")["ratio"].default == 0.5
    assert fields(schema, "FetchResponse")["done"].default is True


@pytest.mark.parametrize("line", ["a: string!", "a: string! 1+", "a: string 1+!", "a: string? 1+! = null"])
def test_an_exclamation_mark_marks_what_must_not_be_lost(line: str) -> None:
    assert parse(api("  b: int8", f"  {line}")).structs["SomeRequest"].fields[1].must_keep


def test_a_struct_is_reused_by_its_name() -> None:
    schema = parse(FETCH)
    assert list(schema.structs).count("FetchTopic") == 1
    assert fields(schema, "FetchResponse")["forgotten"].type == Type("FetchTopic", array=True)


def test_structs_come_behind_those_they_are_made_of() -> None:
    names = list(parse(FETCH).structs)
    assert names.index("FetchPartition") < names.index("FetchTopic") < names.index("FetchRequest")


def test_records_and_bare_structs_need_no_api() -> None:
    schema = parse("record 7 SomeRecord 0-1 flexible 0+\n  a: int8\n\nstruct SomeKey 2\n  b: int16\n")
    record, key = schema.sections
    assert (record.kind, record.key, record.flexible_from) == ("record", 7, 0)
    assert (key.kind, key.key, key.versions, key.flexible_from) == ("struct", None, Versions(2, 2), None)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (api("   a: int8"), 3, "spaces"),
        (api("\ta: int8"), 3, "tabs"),
        (api("    a: int8"), 3, "too deep"),
        (api("  a: int9"), 3, "unknown type"),
        (api("  a: Thing"), 3, "not declared"),
        (api("  a: int8", "    b: int8"), 3, "no fields of its own"),
        (api("  a: int8", "  a: int8"), 4, "declared twice"),
        (api("  a: [Thing]", "    b: int8", "  c: Thing", "    b: int8"), 5, "declared twice"),
        (api("  a: Thing", "    b: Thing"), 4, "not declared"),
        (api("  a: int8 2+ @0", "  b: int8 2+ @0"), 4, "tag 0 is used twice"),
        (api("  a: int8 1+ @0"), 2, "not flexible"),
        (api("  a: int8? = null"), 3, "cannot be null"),
        (api("  a: string = null"), 3, "not nullable"),
        (api("  a: int8 = 128"), 3, "not a default"),
        (api("  a: uint16 = -1"), 3, "not a default"),
        (api("  a: bool = 1"), 3, "not a default"),
        (api("  a: [int8] = 1"), 3, "no default but null"),
        (api("  a: int8 3-1"), 3, "backwards"),
        (api("  Camel: int8"), 3, "snake_case"),
        (api("  from: int8"), 3, "snake_case"),
        (api("  a int8"), 3, "not a field"),
        ("request 0-1\n  a: int8\n", 1, "api line"),
        ("api 1 Some\nrequest 0+\n  a: int8\n", 2, "last version"),
        ("api 1 Some\nrequest 2-1\n  a: int8\n", 2, "backwards"),
        ("api 1 Some\nrequest 1 Name 0-1\n", 2, "named by its api"),
        ("api 1 Some\napi 2 Other\n", 2, "one API"),
        ("record Some 0-1\n  a: int8\n", 1, "key"),
        ("struct 1 Some 0-1\n  a: int8\n", 1, "key"),
        ("record 1 0-1\n  a: int8\n", 1, "name"),
        ("  a: int8\n", 1, "no section"),
        ("nonsense\n", 1, "neither"),
        ("# nothing\n", 1, "no section"),
    ],
)
def test_a_line_that_says_nothing_sensible_is_named(text: str, line: int, words: str) -> None:
    message = refused(text)
    assert message.startswith(f"some.msg:{line}: ")
    assert words in message
