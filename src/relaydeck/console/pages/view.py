"""View: the theme, and whether times are relative, in UTC or local. Cookies of the browser keep the choice."""

from relaydeck.console.forms import Input
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.rendering import ROOT, redirect
from relaydeck.console.request import VIEW, view_of
from relaydeck.errors import BadRequest
from relaydeck.http.pipeline import Reply

_HELP = {
    "theme": "auto: that of the system.",
    "times": "ago: how long ago, with the exact time under the pointer. local needs JavaScript.",
}
_YEAR_SECONDS = 31_536_000


@get("/view", shows=())
async def show(request: PageRequest) -> Reply:
    chosen = view_of(request.headers)
    inputs = [Input(name, "choice", _HELP[name], chosen[name], choices=choices) for name, choices in VIEW.items()]
    return request.page("view.html", inputs=inputs)


@post("/view", "list_networks")
async def save(request: PageRequest) -> Reply:
    cookies = []
    for name, choices in VIEW.items():
        if (chosen := request.form.get(name, "")) not in choices:
            raise BadRequest(f"{name} must be one of {', '.join(choices)}")
        kept = f"relaydeck_{name}={chosen}; Path={ROOT}; Max-Age={_YEAR_SECONDS}; SameSite=Strict; HttpOnly"
        cookies.append((b"set-cookie", kept.encode()))
    return redirect("/view?done=saved", tuple(cookies))
