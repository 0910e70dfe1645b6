"""Things: what is published, what is served from the cache, and to whom."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

THINGS = "runtime/things"
WEB = f"{THINGS}/web"
MASHUPS = f"{THINGS}/mashups"
TESTS = "tests/runtime/things"


def thing(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to describe a thing wrongly, or to keep a change to itself."""
    return Mutation(
        "things", f"{THINGS}/{file}", text, replacement, breaks, (f"{TESTS}/test_thing.py", f"{TESTS}/test_schemas.py")
    )


def sensors(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to reckon a sensor network wrongly, in the example."""
    tests = ("tests/examples/test_sensor_model.py", "tests/examples/test_sensor_things.py")
    return Mutation("things", f"examples/sensors/sensornet/{file}", text, replacement, breaks, tests)


def web(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to answer with an old value, or to a stranger."""
    return Mutation(
        "things",
        f"{THINGS}/{file}" if file in ("catalogue.py", "property_cache.py") else f"{WEB}/{file}",
        text,
        replacement,
        breaks,
        (f"{TESTS}/web/test_parts.py", f"{TESTS}/web/test_gateway.py"),
    )


def mirror(breaks: str, text: str, replacement: str) -> Mutation:
    """One way to answer at once what has to be looked up, or refused."""
    return Mutation("things", f"{WEB}/mirror.py", text, replacement, breaks, (f"{TESTS}/web/test_mirror.py",))


def directory(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to lose, to leak or to misread a description."""
    names = ("merge_patch", "registered_things", "searches", "validation")
    tests = tuple(f"{TESTS}/directory/test_{name}.py" for name in names)
    return Mutation("things", f"{THINGS}/directory/{file}", text, replacement, breaks, tests)


def directory_web(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to tell a user of the directory what he must not know, or what has not happened."""
    tests = (f"{TESTS}/web/test_directory_api.py", f"{TESTS}/web/test_findable.py")
    return Mutation("things", f"{WEB}/{file}", text, replacement, breaks, tests)


def revocation(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to go on with what a user may not do any more, or could not do yet."""
    return Mutation("things", f"{WEB}/{file}", text, replacement, breaks, (f"{TESTS}/web/test_revocation.py",))


def thing_streams(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to tell too much about a whole thing."""
    tests = (f"{TESTS}/web/test_thing_streams.py", f"{TESTS}/web/test_profiles.py")
    return Mutation("things", f"{WEB}/{file}", text, replacement, breaks, tests)


def shared(breaks: str, text: str, replacement: str) -> Mutation:
    """One way to answer a read with the value of another, or to end it with another."""
    return Mutation(
        "things", f"{WEB}/shared_reads.py", text, replacement, breaks, (f"{TESTS}/web/test_shared_reads.py",)
    )


def system(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to tell something wrong of a backplane, or to let anybody restart it."""
    tests = (f"{TESTS}/system/test_properties.py", f"{TESTS}/system/test_system_things.py")
    return Mutation("things", f"{THINGS}/system/{file}", text, replacement, breaks, tests)


def page(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to show a page too much, or nothing."""
    tests = ("test_live.py", "test_live_feed.py", "test_page_files.py")
    return Mutation(
        "things", f"{WEB}/{file}", text, replacement, breaks, tuple(f"{TESTS}/web/{each}" for each in tests)
    )


def mashup(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to run a rule once too often, or never, or in silence."""
    tests = tuple(f"{TESTS}/mashups/test_{each}.py" for each in ("deciding", "mashup", "toml_rules"))
    return Mutation("things", f"{MASHUPS}/{file}", text, replacement, breaks, tests)


def http(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to let in too many, or to answer what was not asked."""
    return Mutation(
        "things",
        f"{WEB}/{file}",
        text,
        replacement,
        breaks,
        (f"{TESTS}/web/test_http_rules.py", f"{TESTS}/web/test_listener.py"),
    )


def sign_in(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to let somebody in, or to keep somebody in."""
    tests = (f"{TESTS}/web/test_openid_parts.py", f"{TESTS}/web/test_openid.py")
    return Mutation("things", f"{WEB}/{file}", text, replacement, breaks, tests)


def claim(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to give a group too much."""
    tests = ("tests/runtime/permissions/test_claims.py",)
    return Mutation("things", f"runtime/permissions/{file}", text, replacement, breaks, tests)


MUTATIONS = (
    directory_web(
        "each user sees all",
        "directory_api.py",
        'return self._visible(request["principal"], record.description())',
        "return record.description()",
    ),
    directory_web(
        "what is hidden is replaced",
        "directory_api.py",
        "        if before is None and id in self._registrations.by_id:\n",
        "        if False:\n",
    ),
    directory_web(
        "a registration shadows a thing of the system",
        "directory_api.py",
        "self._own.get(id) or self._registrations.by_id.get(id)",
        "self._registrations.by_id.get(id) or self._own.get(id)",
    ),
    directory_web(
        "the ids of queues are changes",
        "directory_events.py",
        "self._description(request, after, queue)",
        'self._description(request, after, "")',
    ),
    directory_web("a page runs what a description has", "thing_page.py", '.replace("<", "\\\\u003c")', ""),
    directory(
        "a null of a patch is a value", "merge_patch.py", "            result.pop(name, None)\n", "            pass\n"
    ),
    directory(
        "true counts as 1 in a patch", "merge_patch.py", "isinstance(old, bool) == isinstance(new, bool) and ", ""
    ),
    directory(
        "a member that goes is in no patch",
        "merge_patch.py",
        "for name in before if name not in after",
        "for name in ()",
    ),
    directory("a hidden change is an event", "changes.py", "    if not patch:\n", "    if False:\n"),
    directory(
        "an absolute time wins over a ttl",
        "registered_things.py",
        "        if ttl_s is not None:\n",
        '        if ttl_s is not None and "expires" not in said:\n',
    ),
    directory(
        "a registration expires too late",
        "registered_things.py",
        "self.expires_ns <= now_ns",
        "self.expires_ns < now_ns",
    ),
    directory(
        "a change makes it new", "registered_things.py", "now_ns if before is None else before.created_ns", "now_ns"
    ),
    directory(
        "bytes of what is gone still count",
        "registered_things.py",
        "            self._bytes -= self.by_id.pop(change.before.id).size\n",
        "            self.by_id.pop(change.before.id)\n",
    ),
    directory(
        "what was deleted comes back",
        "registration_file.py",
        "        elif change.before is not None:\n",
        "        elif False:\n",
    ),
    directory("a hidden property is found by its value", "attribute_search.py", "each.name in properties and ", ""),
    directory("true is greater than 0", "attribute_search.py", " and not isinstance(value, bool)", ""),
    directory(
        "regular expressions run",
        "jsonpath_search.py",
        "            del self.function_extensions[name]\n",
        "            pass\n",
    ),
    directory("comparisons cost nothing", "jsonpath_search.py", "        if self._steps < 0:\n", "        if False:\n"),
    directory(
        "a Thing Model is registered", "validation.py", '    elif "tm:ThingModel" in types:\n', "    elif False:\n"
    ),
    directory("a time that has passed is taken", "validation.py", "if left_ns <= 0:\n", "if left_ns < -now_ns:\n"),
    thing(
        "what was there already is told again", "thing.py", "if self._notified.get(each.name) != packed:", "if True:"
    ),
    thing(
        "properties that are not observable are told",
        "thing.py",
        "            if each.is_observable:\n",
        "            if True:\n",
    ),
    thing(
        "a method that fails keeps its changes to itself",
        "thing.py",
        "            try:\n                return await function(self, *arguments, **keywords)\n            finally:\n"
        "                self.notify_changes()",
        "            result = await function(self, *arguments, **keywords)\n            return result",
    ),
    thing("a write is not checked", "affordances.py", "    setter.__annotations__[parameter] = read\n", "    pass\n"),
    thing("two types of one property pass", "affordances.py", "        if kind != written:", "        if False:"),
    thing(
        "data of any type is an event's", "thing.py", "            converted(event.kind, body)\n", "            pass\n"
    ),
    thing("a type that contains itself is written out for ever", "schemas.py", "if name in within:", "if False:"),
    thing(
        "an integer fits two alternatives",
        "schemas.py",
        'return [each for each in alternatives if each.get("type") != "integer"]',
        "return alternatives",
    ),
    thing("a value may match two kinds of numbers", "schemas.py", 'if {"type": "number"} not in numbers:', "if False:"),
    thing("keys that are no text pass", "schemas.py", "        if base is not str:", "        if False:"),
    thing(
        "a property that cannot be read ends the action",
        "thing.py",
        '                    self._notify("property", each.name, None, is_known=False)',
        "                    raise",
    ),
    thing("an unknown value counts as known", "thing.py", "None, is_known=False)", "None)"),
    thing("a spawned thing speaks for another", "thing.py", " and number_of(self) is None:", ":"),
    thing("a new gateway learns no values", "thing.py", "        self._notified.clear()\n", ""),
    thing(
        "methods of plain bases change things in silence",
        "thing.py",
        "    for base in cls.__mro__:",
        "    for base in (cls,):",
    ),
    thing("a default is of any type", "affordances.py", "        converted(kind, written)\n", ""),
    thing(
        "a setter has bounds of its own",
        "affordances.py",
        "        if has_bounds(own) and own !=",
        "        if False and own !=",
    ),
    thing("names may be paths", "declaring.py", " or not _NAME.fullmatch(name):", ":"),
    thing(
        "fields are taken for keywords",
        "schemas.py",
        '_INNER: Final = ("items", "additionalProperties", "oneOf")',
        '_INNER: Final = ("items", "additionalProperties", "oneOf", "properties")',
    ),
    web(
        "a value outlives its process",
        "property_cache.py",
        "found is not None and found[0] == process",
        "found is not None",
    ),
    web(
        "a place that has started again keeps its things",
        "catalogue.py",
        "place.is_up and place.generation == entry.generation",
        "place.is_up",
    ),
    web("replicas share one value", "catalogue.py", "is_cached=not (is_replica or is_proxy)", "is_cached=not is_proxy"),
    web(
        "a backplane that starts again loses its things",
        "catalogue.py",
        "if place[0] in directory.backplanes and newest[place[0]] == place",
        "if place in places",
    ),
    web(
        "a backplane that is silent is not asked again",
        "catalogue.py",
        "        return not self._silent",
        "        return True",
    ),
    web(
        "a history has any number of bytes",
        "history.py",
        "(self._bytes > self._bytes_max and len(entries) > 1)",
        "False",
    ),
    web(
        "a history that is closed keeps its waiters",
        "history.py",
        "        self.is_closed = True\n        self.wake()",
        "        self.is_closed = True",
    ),
    web(
        "a value that is not known is kept",
        "property_cache.py",
        "        self._values.pop((id, name), None)\n",
        "        pass\n",
    ),
    web(
        "bytes in lists stay text", "parsing.py", '[from_json(each, schema["items"], where) for each in value]', "value"
    ),
    web(
        "two things with one id take turns",
        "catalogue.py",
        "                    continue\n",
        "                    pass\n",
    ),
    web("a loss is not told", "history.py", "return entries[0], first - number - 1", "return entries[0], 0"),
    web("ids count hidden messages", "history.py", "{_sealed(number):016x}", "{number:016x}"),
    web("ids of another process count", "history.py", "said == epoch and ", ""),
    web("an invocation is everybody's", "invocations.py", "and found.principal == principal", ""),
    shared(
        "a read gets a value from before it came",
        "following = self._next[key] = _Batch(",
        "following = batch or _Batch(",
    ),
    shared("a client that goes ends the reads of others", "if not self.waiting_count and self.task", "if self.task"),
    shared("a call outlives its readers", "            self.task.cancel()", "            pass"),
    shared("a read waits for a whole action", "loop.call_at(batch.latest_s, self._begin, key, batch)", "None"),
    shared("a reader alone waits", "if readers_count == 1 and not batch.waiting_count:", "if False:"),
    shared("readers that ask again share nothing", "readers_count=len(batch.readers))", "readers_count=1)"),
    shared("readers that are all back wait", "if batch.waiting_count == batch.enough:", "if False:"),
    web("all that run may be forgotten", "invocations.py", "if self._kept[href].task.done()), None)", "), None)"),
    web("one user takes all long actions", "invocations.py", "if len(own) >= PRINCIPAL_INVOCATIONS_MAX:", "if False:"),
    revocation(
        "a poll is answered after its permission",
        "streams.py",
        '                expect_permitted(self._mirror.access, subscription.principal, entry, kind, "observe", name)\n',
        "",
    ),
    revocation("a poll outlives its permission", "streams.py", "while not stream.is_revoked:", "while True:"),
    revocation("a queue keeps the past", "streams.py", "if self._places[place] < floor:", "if False:"),
    revocation("a new permission opens the past", "access.py", "else history.floor", "else 0"),
    revocation("a new history counts as old", "mirror.py", '            self.access.floor_of("", found)\n', ""),
    revocation(
        "results are for those who may act no more",
        "interactions.py",
        'entry is not None and access.permits(principal, entry, "invoke", name)',
        "entry is not None",
    ),
    revocation(
        "the audit log lacks hidden things",
        "mirror.py",
        "            self.access.refused(principal, id, kind, name)\n",
        "",
    ),
    mirror(
        "a user gets more than is permitted",
        "found if self.access.permits(principal, found, kind, name) else None",
        "found",
    ),
    mirror("an unknown affordance is used", "or name not in found.model.get(group, ())", ""),
    mirror("a process that has ended is called", "or not self._is_here(found)", ""),
    mirror("a replica answers for another", "if entry.is_cached and not", "if not"),
    mirror(
        "a node's value outlives its process",
        "if entry.is_cached and not entry.node else None",
        "if entry.is_cached else None",
    ),
    mirror("a value that is not observable is kept", "entry.process) if is_observable else None", "entry.process)"),
    directory_web(
        "a search tells a value",
        "directory_api.py",
        'if own is None or not self._access.permits(principal, own.entry, "read", name):',
        "if own is None:",
    ),
    web(
        "the time to come back is rounded down",
        "problems.py",
        "math.ceil(error.retry_after)",
        "math.floor(error.retry_after)",
    ),
    web(
        "a page of another site is let in",
        "authentication.py",
        "(origin is not None and origin !=",
        "(False and origin !=",
    ),
    web(
        "a page of another site uses a password",
        "authentication.py",
        "            expect_same_site(request, self._origins)\n",
        "",
    ),
    web("a token is anybody's", "authentication.py", ' and name in ("", user)', ""),
    web("the latest action comes last", "invocations.py", "in reversed(own)", "in own"),
    thing_streams("hidden messages are sent", "thing_streams.py", " and found.about.name in stream.names", ""),
    thing_streams(
        "a new permission opens the past",
        "live_feed.py",
        "return max(place, floor), is_gap or",
        "return place, is_gap or",
    ),
    thing_streams("clients of profiles meet bearer tokens", "forms.py", "if security in _PROFILED", "if security"),
    web("a rebound name is let in", "authentication.py", "    if name not in _LOCAL:", "    if False:"),
    web(
        "anybody is let in",
        "authentication.py",
        "        elif not scheme and self.is_anonymous:",
        "        elif not scheme:",
    ),
    page(
        "ids of messages are numbers",
        "live_feed.py",
        "max(self._stamp_us + 1, now_us - self._first_us)",
        "self._stamp_us + 1",
    ),
    page("ids tell the clock of the host", "live_feed.py", "now_us - self._first_us)", "now_us)"),
    page(
        "a gap is not told",
        "live_feed.py",
        "return found.number - 1, found.number > 1",
        "return found.number - 1, False",
    ),
    page(
        "the feed is kept for nobody", "live_feed.py", "        self._is_read = False", "        self._is_read = True"
    ),
    page(
        "everybody gets all messages",
        "live.py",
        'return self._mirror.access.permits(principal, entry, "observe", name)',
        "return True",
    ),
    page(
        "what no thing declares is sent",
        "live.py",
        "entry is None or name not in entry.model.get(group, {})",
        "entry is None",
    ),
    page(
        "a revoked stream stays open",
        "live.py",
        "access.is_limited and not known and not access.is_operator(principal)",
        "False",
    ),
    page("who comes and goes is told to all", "live.py", "return stream.view != before", "return True"),
    page(
        "new permissions are not told",
        "live.py",
        "(each.id, each.process, self._uses(principal, each))",
        "(each.id, each.process)",
    ),
    page("all paths are public", "page_files.py", 'return path == "/" or', "return True or"),
    system("an ordered restart is a death", "properties.py", "    if count > 0:", "    if now.reason:"),
    system("a death is told for ever", "properties.py", "- (0 if before is None else before.deaths)", "- 0"),
    system(
        "a new process has the share of the old one",
        "properties.py",
        "is_same = entry.pid is not None and entry.pid == known.pid",
        "is_same = True",
    ),
    system("a share that wavers is published", "properties.py", "abs(share - known.cpu) < CPU_STEP", "False"),
    system("two answers of one heartbeat are compared", "properties.py", " if between_s > 0.1 else None", ""),
    system(
        "the time between answers is that between heartbeats",
        "properties.py",
        "passed_s + ages[0] - ages[1]",
        "passed_s",
    ),
    system("a process that starts has started", "properties.py", "if now.is_registered and not", "if not"),
    system("the youngest call counts", "status.py", "return max(ages +", "return min(ages +"),
    system("anybody may restart", "system_things.py", "        if not self._may_act:\n", "        if False:\n"),
    system(
        "the things wait for their own end",
        "system_things.py",
        "        if backplane == self._host.backplane or",
        "        if",
    ),
    system("the first look tells of starts", "system_things.py", "() if before is None else news_of", "news_of"),
    system("statistics are asked for each second", "system_things.py", '"statistics": is_busy', '"statistics": True'),
    system("nothing new is given all the same", "system_things.py", "self._given[name] and not news:", "None:"),
    system("a rolling restart is that of one", "system_things.py", "[group if rolling else backplane]", "[backplane]"),
    system("an error is an answer", "supervisor_client.py", "        if self.error is not None:", "        if False:"),
    sensors("a node that has never woken is awake", "model.py", "self._sequence > 0 and not self.is_dead", "True"),
    sensors(
        "an empty battery feeds one more cycle",
        "model.py",
        "if self.charge_mas < self.cycle_mas:",
        "if self.charge_mas < 0:",
    ),
    sensors("a dead node wakes again", "model.py", "            if node.is_dead:\n", "            if False:\n"),
    sensors(
        "losses depend on other nodes",
        "model.py",
        'Random(f"{plan.seed}/{number}")',
        'Random(f"{plan.seed}/{plan.nodes}")',
    ),
    sensors("lost messages arrive", "nodes.py", "            if each.is_lost:\n", "            if False:\n"),
    sensors("a sleeping node tells no age", "nodes.py", "now_ns - self._last.time_ns)", "0)"),
    sensors(
        "a counter that wraps has no rate", "rates.py", "if grown < 0 and self._wraps_at is not None:", "if False:"
    ),
    sensors(
        "parts of a processor count twice", "host.py", '.startswith("package")', '.startswith(("package", "core"))'
    ),
    mashup("a key counts for nothing", "deciding.py", "cause.key is not None and self._is_taken(cause)", "False"),
    mashup("a loop goes on", "deciding.py", "if cause.hops >= HOPS_MAX:", "if False:"),
    mashup("a run adds no hop", "runner.py", "run.cause.hops + 1", "run.cause.hops"),
    mashup("a restarted run goes on", "runner.py", "self._mashup._platform.interrupt(run.action)", "pass"),
    mashup(
        "a trigger that is held back prolongs nothing",
        "deciding.py",
        "(number, cause), now_ns + self.policy.debounce_ns",
        "(number, cause), self._due_ns or now_ns + self.policy.debounce_ns",
    ),
    mashup(
        "a skipped trigger begins a cooldown",
        "deciding.py",
        "        if not isinstance(effects[-1], SkipTrigger):\n",
        "        if True:\n",
    ),
    mashup(
        "what waits is forgotten", "deciding.py", "        if self._running or not self._queue:", "        if True:"
    ),
    mashup("a rule has the rights of its cause", "runner.py", "action.principal = spec.run_as", "pass"),
    mashup("a client starts rules", "runner.py", 'if source.startswith("client:"):', "if False:"),
    mashup("the first value is a change", "runner.py", "or seen is _UNKNOWN or seen == data", "or seen == data"),
    mashup("what is repeated is a change", "runner.py", "or seen is _UNKNOWN or seen == data", "or seen is _UNKNOWN"),
    mashup(
        "a run that was interrupted is repeated", "runner.py", "if line.started is not None:", "if line.number == -1:"
    ),
    mashup("a torn record stays", "journal.py", "            os.ftruncate(self._file, at)\n", "            pass\n"),
    mashup("what cannot be compared holds", "toml_rules.py", "            return False\n", "            return True\n"),
    web(
        "other hosts are listened to",
        "gateway.py",
        "if not is_loopback and not has_tls and not is_insecure:",
        "if False:",
    ),
    http("anybody on the network is let in", "gateway.py", "if is_anonymous and not is_loopback:", "if False:"),
    http(
        "weak tags permit a write",
        "conditional.py",
        "_names(if_match, etag, is_weak=False)",
        "_names(if_match, etag, is_weak=True)",
    ),
    http(
        "two representations have one tag", "compression.py", "response.headers[hdrs.ETAG] = etag_of_gzip(etag)", "pass"
    ),
    http("a refusal of gzip is an acceptance", "compression.py", "return not is_refused", "return True"),
    http(
        "every origin may read", "cross_origin.py", "if origin not in origins or origin is None:", "if origin is None:"
    ),
    http("caches mix origins", "cross_origin.py", '{"Vary": "Origin"}', "{}"),
    http(
        "a mute client keeps its place",
        "listener.py",
        "            del self._waiting[connection]\n            connection.abort()\n            return True",
        "            return False",
    ),
    http(
        "a client that has its answer cannot make room",
        "listener.py",
        "if not self._is_accepting and self._retry is None:",
        "if False:",
    ),
    http(
        "a new request is the end of a long one",
        "listener.py",
        "        self._waiting.pop(connection, None)\n\n    def has_answered",
        "        pass\n\n    def has_answered",
    ),
    sign_in("a token for another is ours", "id_tokens.py", "if settings.client_id not in audience:", "if False:"),
    sign_in(
        "azp is not looked at",
        "id_tokens.py",
        "if len(audience) == 1 else None) != settings",
        "if True else None) is False and settings",
    ),
    sign_in(
        "a token of another issuer counts", "id_tokens.py", 'if claims.get("iss") != settings.issuer:', "if False:"
    ),
    sign_in(
        "a nonce may be replayed", "id_tokens.py", 'if nonce is not None and claims.get("nonce") != nonce:', "if False:"
    ),
    sign_in("tokens do not expire", "id_tokens.py", "(value <= now_s - SKEW_S)", "False"),
    sign_in("keys for encryption sign", "id_tokens.py", ' or key.get("use", "sig") != "sig"', ""),
    sign_in("a logout signs in", "id_tokens.py", ' or "events" in claims', ""),
    sign_in("anybody's email counts", "id_tokens.py", 'claims.get("email_verified") is not True', "False"),
    sign_in("a user may be called local", "id_tokens.py", "if is_reserved(name):", "if False:"),
    sign_in("a state counts twice", "sign_in_attempts.py", " or attempt.state in self._used", ""),
    sign_in(
        "a seal is not checked",
        "sign_in_attempts.py",
        "hmac.compare_digest(tag, _tag(body.encode(), self._key))",
        "True",
    ),
    sign_in("a sign-in leads elsewhere", "sign_in_attempts.py", ' and "//" not in path', ""),
    sign_in(
        "a session does not become idle",
        "credentials.py",
        "min(self.until_s, self.used_s + self.idle_s)",
        "self.until_s",
    ),
    sign_in(
        "a session never ends",
        "credentials.py",
        "min(self.until_s, self.used_s + self.idle_s)",
        "self.used_s + self.idle_s",
    ),
    sign_in("one user takes all sessions", "credentials.py", "len(of_user) >= OF_USER_MAX", "False"),
    sign_in(
        "a guesser locks good users out", "failed_attempts.py", "if digest and digest in self._right:", "if False:"
    ),
    sign_in(
        "a page of another site may send a form",
        "openid.py",
        "            self._expect_same_origin(request)\n",
        "            pass\n",
    ),
    sign_in("streams outlive their session", "openid.py", "                task.cancel()\n", "                pass\n"),
    sign_in(
        "userinfo of another user counts", "openid.py", 'if info and info.get("sub") != claims["sub"]:', "if False:"
    ),
    sign_in(
        "a second request overtakes the groups",
        "openid.py",
        "elif (task := self._tasks.get(found)) is not None:",
        "elif False and (task := self._tasks.get(found)):",
    ),
    sign_in(
        "a sign-out that is given up leaves its groups",
        "openid.py",
        "            await asyncio.shield(task)\n        except",
        "            await task\n        except",
    ),
    claim("a claimed group does not end", "table.py", "_ending(each, claimed.until)", "each"),
    claim("claims of others are lost", "claims.py", "if each.until > now_s and name != user", "if False"),
    claim("a claim that has ended is kept", "claims.py", "if each.until > now_s and name != user", "if name != user"),
)
