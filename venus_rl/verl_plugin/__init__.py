"""Everything that imports verl.

verl loads this package in every process through ``VERL_USE_EXTERNAL_MODULES=venus_rl.verl_plugin`` (its hook for
external modules), so importing it registers the CPU platform and nothing heavier.
"""

from venus_rl.verl_plugin import platform_cpu as platform_cpu
