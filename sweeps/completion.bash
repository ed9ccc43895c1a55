# Printed by `python -m fgrpo_bench completion bash`, for a shell to read.
_fgrpo_bench() {
  local typed=${COMP_LINE:0:COMP_POINT} word before="" line
  word=${typed##*[[:space:]]}
  # of key=value bash completes what is behind the sign alone
  [[ $COMP_WORDBREAKS == *=* && $word == *=* ]] && before=${word%"${word##*=}"}
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line#"$before"}")
  done < <(PYTHONPATH=@ROOT@ @PYTHON@ -m sweeps.completion -- "$typed" 2>/dev/null)
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=.-] ]] && compopt -o nospace
  return 0
}
_fgrpo_bench_make() {  # elsewhere make completes as it did before
  if [[ -d conf/sweep && -f fgrpo_bench/__main__.py ]]; then _fgrpo_bench
  elif declare -F _make > /dev/null; then _make "$@"; fi
}
_fgrpo_bench_python() {
  if [[ $COMP_LINE =~ -m[[:space:]]+(fgrpo_bench|sweeps) ]]; then _fgrpo_bench
  elif declare -F _python > /dev/null; then _python "$@"; fi
}
complete -F _fgrpo_bench fgrpo-bench
complete -o bashdefault -o default -F _fgrpo_bench_make make
complete -o bashdefault -o default -F _fgrpo_bench_python python python3
