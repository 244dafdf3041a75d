"""Builds a wheel that is for one platform and works with any Python 3."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Binary(Distribution):
    def has_ext_modules(self):
        return True  # the wheel contains libraries, which `make` has built


setup(distclass=Binary, cmdclass={"bdist_wheel": PlatformWheel})
