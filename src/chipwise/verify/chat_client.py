"""ChatClient: answers from any OpenAI-compatible server, with what Python brings."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from chipwise.errors import EngineError, InputError
from chipwise.verify.case import Case

_MOST_BYTES = 16 << 20
_TRIES = 4
_SHOWN = 200
_CHECK = "check that it is an OpenAI server"

# Said in full: servers take what a request leaves out from the model's own settings, and differ in them.
_GREEDY = {"temperature": 0, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}


class CaseRefusedError(EngineError):
    """The server refuses one request (HTTP 400, 413 or 422): the case does not fit it."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would make a GET of the question, and take the key to whoever it points at."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """None leaves the redirect's status an error."""
        return


_OPENER = urllib.request.build_opener(_NoRedirects)


class ChatClient:
    """A server's ``/chat/completions``.

    Args:
        url: Its base, such as ``http://localhost:8000/v1``.
        model: The model's name there; None takes the first that the server lists.
        api_key: Sent as a bearer token if given.
        key_name: Where the key is from, for messages.
        option: Where the URL is from, for messages.
        timeout_s: For one answer.

    Raises:
        InputError: The URL is none, the server is not reached, or it lists no model.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        key_name: str = "OPENAI_API_KEY",
        option: str = "--url",
        timeout_s: float = 120,
    ) -> None:
        if not _is_url(url):
            raise InputError(f"{_shown(url)!r} is no URL", where=option, remedy="give e.g. http://localhost:8000/v1")
        if _shown(url) != url:
            # They would be shown in reports, and the protocol has its own place for a key.
            raise InputError(
                f"{_shown(url)!r} has a name, password or query", where=option, remedy=f"put the key into {key_name}"
            )
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            raise InputError(
                f"{key_name} holds what no key can", where=option, remedy="set it to one line of ASCII characters"
            )
        self.url = url.rstrip("/")
        self._key, self._key_name, self._timeout_s = api_key, key_name, timeout_s
        self.model = model or self._first_model()

    def answer(self, case: Case) -> str:
        """The greedy answer to a case, its tool calls as JSON behind its text.

        Raises:
            CaseRefusedError: The server refuses this case.
            EngineError: The server fails, or answers what is no completion.
            InputError: It is not reached, or does not know model or key.
        """
        messages = list(case.query.messages) or [{"role": "user", "content": case.query.prompt}]
        body: dict[str, Any] = {"model": self.model, "messages": messages, "max_tokens": case.max_tokens, **_GREEDY}
        if case.query.tools:
            body["tools"] = list(case.query.tools)
        found = self._json("/chat/completions", body)
        try:
            message = found["choices"][0]["message"]
            calls = message.get("tool_calls") or (
                [{"function": call}] if (call := message.get("function_call")) else []
            )
            texts = [_content(message), *map(_call, calls)]
            return _whole("\n".join(text for text in texts if text).strip())
        except (KeyError, IndexError, TypeError, AttributeError) as e:
            said = _error_of(found) or f"{type(e).__name__}: {e}"
            raise EngineError(f"the answer is no chat completion ({said})", where=self.url) from e

    def _first_model(self) -> str:
        found = self._json("/models", None)
        try:
            return str(found["data"][0]["id"])
        except (KeyError, IndexError, TypeError) as e:
            raise InputError("the server lists no model", where=self.url, remedy="name one with --model") from e

    def _json(self, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        for attempt in range(_TRIES):
            try:
                with _OPENER.open(request, timeout=self._timeout_s) as response:
                    return json.loads(response.read(_MOST_BYTES))
            except urllib.error.HTTPError as e:
                if e.code not in (429, 503) or attempt == _TRIES - 1:
                    raise self._refusal(e) from e
                time.sleep(_wait_s(e, attempt))
            except (OSError, ValueError, RecursionError, http.client.HTTPException) as e:
                if not _dropped(e) or attempt == _TRIES - 1:
                    raise self._broken(e) from e
                time.sleep(0.5 * 2**attempt)
        raise EngineError("the server gave no answer", where=self.url)

    def _refusal(self, error: urllib.error.HTTPError) -> Exception:
        said = " ".join(error.read(_SHOWN).decode("utf-8", "replace").split())
        what = f"HTTP {error.code}: {said}"
        if 300 <= error.code < 400:
            where = _shown(error.headers.get("Location", ""))
            return InputError(f"HTTP {error.code}: it points to {where}", where=self.url, remedy="give that URL")
        if error.code in (401, 403):
            return InputError(what, where=self.url, remedy=f"set {self._key_name} to a key of this server")
        if error.code == 404:
            return InputError(what, where=self.url, remedy="check the URL (it mostly ends in /v1) and --model")
        if error.code in (400, 413, 422):
            return CaseRefusedError(what, where=self.url)
        return EngineError(what, where=self.url, remedy="look into the server's log")

    def _broken(self, error: Exception) -> Exception:
        if isinstance(error, http.client.HTTPException):
            return EngineError(f"the answer is no HTTP ({type(error).__name__})", where=self.url, remedy=_CHECK)
        if isinstance(error, (ValueError, RecursionError)):
            return EngineError("the answer is no JSON", where=self.url, remedy=_CHECK)
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return EngineError(
                f"no answer in {self._timeout_s:g} s", where=self.url, remedy="give it less to do at once with --slots"
            )
        return InputError(f"cannot reach the server ({reason})", where=self.url, remedy="start it, or check the URL")


def same_server(one: str, other: str) -> bool:
    """Whether two URLs are of one server: scheme, host and port."""
    return _is_url(one) and _is_url(other) and _origin(one) == _origin(other)


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]


def _shown(url: str) -> str:
    """A URL without what may be a secret in it: user, password, query and fragment."""
    plain = url.split("?")[0].split("#")[0]
    scheme, separator, rest = plain.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _dropped(error: Exception) -> bool:
    """Whether a connection was cut, which says nothing of the question: it may be asked again."""
    kinds = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected, http.client.IncompleteRead)
    return isinstance(error, kinds) or isinstance(getattr(error, "reason", None), kinds)


def _error_of(body: Any) -> str:
    """What a body says went wrong; empty if it says nothing."""
    error = body.get("error") if isinstance(body, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(said).split())[:_SHOWN] if said else ""


def _is_url(text: str) -> bool:
    if not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _content(message: Mapping[str, Any]) -> str:
    """The text of a message, in one piece or in parts; where it refuses, what it says of that."""
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type", "text") == "text")
    if not isinstance(content, str):
        raise TypeError(f"content is no text but {type(content).__name__}")
    return content


def _call(call: Mapping[str, Any]) -> str:
    function = call["function"]
    return json.dumps({"name": function["name"], "arguments": function.get("arguments") or {}}, ensure_ascii=False)


def _whole(text: str) -> str:
    """A text with U+FFFD for each half of a surrogate pair, which JSON can say and no file can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _wait_s(error: urllib.error.HTTPError, attempt: int) -> float:
    """What the server asks for, at most ten seconds; else half a second, doubled each time."""
    try:
        return min(10.0, max(0.0, float(error.headers.get("Retry-After", ""))))
    except ValueError:
        return float(0.5 * 2**attempt)
