"""The few lines of ``sh`` that run before the job: they work out the execution's epoch and token."""

from __future__ import annotations

from typing import Final

BAD_COUNTERS: Final = 78
"""Exit code when A or J is no decimal: the configuration is wrong (``EX_CONFIG``)."""

PROLOGUE: Final = r"""set -eu
for counter in DISPATCH_K8S_ADMISSION DISPATCH_K8S_RESTART; do
  eval "value=\${$counter-}"
  case $value in
    '' | *[!0-9]* | 0?* | ???????*)
      echo "dispatch: $counter is '$value', not a decimal below 1000000: an annotation or label was changed" >&2
      exit 78
      ;;
  esac
done
execution=$((DISPATCH_K8S_ADMISSION + DISPATCH_K8S_RESTART))
if [ "$execution" -ge 1000000 ]; then
  echo "dispatch: execution $execution is not below 1000000" >&2
  exit 78
fi
DISPATCH_EPOCH=$((DISPATCH_K8S_EPOCH_PREFIX * 1000000 + execution))
DISPATCH_ATTEMPT="$DISPATCH_K8S_TOKEN_PREFIX.$DISPATCH_K8S_ADMISSION.$DISPATCH_K8S_RESTART"
export DISPATCH_EPOCH DISPATCH_ATTEMPT
if [ -n "${DISPATCH_K8S_WORKDIR-}" ]; then
  cd -- "$DISPATCH_K8S_WORKDIR"
fi
unset DISPATCH_K8S_EPOCH_PREFIX DISPATCH_K8S_TOKEN_PREFIX DISPATCH_K8S_ADMISSION DISPATCH_K8S_RESTART
unset DISPATCH_K8S_WORKDIR counter value execution
exec "$@"
"""

COMMAND: Final = ("sh", "-c", PROLOGUE, "dispatch")
"""The trainer container's command; the job's argv follows as its args, unchanged."""
