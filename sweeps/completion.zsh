# Printed by `python -m fgrpo_bench completion zsh`, for a shell to read.
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_fgrpo_bench() {
  local -a answers
  answers=("${(@f)$(PYTHONPATH=@ROOT@ @PYTHON@ -m sweeps.completion -- "$LBUFFER" 2>/dev/null)}")
  [[ -n $answers[1] ]] && compadd -S '' -- $answers
}
_fgrpo_bench_make() {  # elsewhere make completes as it did before
  if [[ -d conf/sweep && -f fgrpo_bench/__main__.py ]]; then _fgrpo_bench; else _make "$@"; fi
}
_fgrpo_bench_python() {
  if [[ $LBUFFER =~ '-m +(fgrpo_bench|sweeps)' ]]; then _fgrpo_bench; else _python "$@"; fi
}
compdef _fgrpo_bench fgrpo-bench
compdef _fgrpo_bench_make make
compdef _fgrpo_bench_python python python3
