"""JVM flags for processes of a minute: C2 and a parallel garbage collector cost more than they gain on two cores.

The ``java`` launcher of every JDK since 9 reads them.
"""

QUICK_JVM = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
