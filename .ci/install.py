"""Install packages into the environment of this Python: with uv, or with pip if uv fails.

    .venv/bin/python .ci/install.py ARGUMENTS...

The arguments are those of ``pip install``.
"""

from __future__ import annotations

import os
import subprocess
import sys

UV = "uv==0.13.9"
PIP = [sys.executable, "-m", "pip", "install"]


def translate_pip_settings() -> tuple[list[str], dict[str, str]]:
    """What pip's configuration files and variables say, as uv's arguments and variables: uv does not read them."""
    from pip._internal.commands import create_command

    options, _ = create_command("install").parse_args([])
    arguments = ["--index-strategy", "unsafe-best-match"]  # pip prefers no index to another either
    arguments += ["--no-index"] if options.no_index else ["--default-index", options.index_url]
    for name, values in {
        "--index": [] if options.no_index else options.extra_index_urls,
        "--find-links": options.find_links,
        "--allow-insecure-host": options.trusted_hosts,
        "--constraint": options.constraints,
    }.items():
        arguments += [part for value in values for part in (name, value)]
    variables = {"UV_HTTP_TIMEOUT": str(max(30, int(options.timeout)))}  # 30 is uv's default
    if options.cert:
        variables["SSL_CERT_FILE"] = options.cert
    if options.proxy:
        variables["ALL_PROXY"] = options.proxy
    return arguments, variables


def install_with_uv(arguments: list[str]) -> None:
    """Install uv, and then packages with it."""
    subprocess.run([*PIP, "--quiet", UV], check=True)
    settings, variables = translate_pip_settings()
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, *settings, *arguments]
    subprocess.run(command, env={**os.environ, **variables}, check=True)


def install_with_pip(arguments: list[str]) -> int:
    """Install packages with the newest pip."""
    subprocess.run([*PIP, "--quiet", "--upgrade", "pip"], check=True)
    return subprocess.run([*PIP, *arguments]).returncode


if __name__ == "__main__":
    try:
        install_with_uv(sys.argv[1:])
    except Exception as error:  # the message could contain the password of an index
        print(f"uv failed ({type(error).__name__}); pip takes several times as long", flush=True)
        sys.exit(install_with_pip(sys.argv[1:]))
