"""Protobuf messages with something changed: what a client that is wrong, or mean, may send."""


def ids_of(p4info):
    """Ids that a mutation may put where another id was."""
    kinds = ("tables", "actions", "digests")
    return sorted({o.preamble.id for kind in kinds for o in getattr(p4info, kind)})


def _is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def mutate(message, rng, ids):
    """Changes one field somewhere in a message: sets, clears, repeats or replaces it."""
    fields = [f for f in message.DESCRIPTOR.fields if not _is_map(f)]
    if not fields:
        return
    field = rng.choice(fields)
    if field.message_type is not None and rng.random() < 0.7:
        inner = getattr(message, field.name)
        if not field.is_repeated:
            mutate(inner, rng, ids)
            return
        if inner and rng.random() < 0.7:
            mutate(rng.choice(list(inner)), rng, ids)
            return
    _change_field(message, field, rng, ids)


def _change_field(message, field, rng, ids):
    current = getattr(message, field.name)
    if field.is_repeated:
        if len(current) and rng.random() < 0.5:
            del current[rng.randrange(len(current))]
        elif field.message_type is not None:
            current.add()
        else:
            current.append(_scalar(field, rng, ids))
    elif rng.random() < 0.3:
        message.ClearField(field.name)
    elif field.message_type is not None:
        current.SetInParent()
    else:
        setattr(message, field.name, _scalar(field, rng, ids))


def _scalar(field, rng, ids):
    if field.type == field.TYPE_BYTES:
        return rng.choice([b"", b"\0", b"\x01", b"\0\x02", b"\xff" * rng.randrange(1, 20)])
    if field.type == field.TYPE_STRING:
        return rng.choice(["", "x", "pin"])
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    small = [0, 1, 2, 5, 8]
    if field.type in (field.TYPE_INT32, field.TYPE_INT64, field.TYPE_ENUM):
        large = 2**31 - 1 if field.type != field.TYPE_INT64 else 2**63 - 1
        return rng.choice([*small, -1, large, -large])
    return rng.choice([*small, *ids, 2**32 - 1])
