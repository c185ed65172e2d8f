"""For JVMs that live for a minute: on two cores the thorough compiler and a garbage collector of many threads cost
more than they give. Read by the ``java`` launcher of every JDK since 9."""

QUICK_JVM = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
