"""What `epoka completion` takes."""

from __future__ import annotations

from epoka.cli.commands import Command, Parser


def declare(parser: Parser) -> None:
    parser.add_argument("shell", metavar="bash|zsh|fish", help="your shell")


COMMAND = Command(
    "completion",
    "Completion for your shell.",
    "epoka.cli.completion:show_script",
    declare,
    'bash: eval "$(epoka completion bash)" in ~/.bashrc\n'
    'zsh:  eval "$(epoka completion zsh)" in ~/.zshrc\n'
    "fish: epoka completion fish > ~/.config/fish/completions/epoka.fish",
)
