"""JVM flags for processes of a minute: the C2 compiler and a parallel garbage collector cost more than they save.

The ``java`` launcher of every JDK since 9 reads them.
"""

QUICK_JVM = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
