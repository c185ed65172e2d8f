// node-rdkafka behind the command line of ../README.md: the librdkafka that it brings along, compiled where it runs. Of
// the admin calls it has those about topics, and metadata, offsets and commits of its consumer. Its producer writes the
// values of headers as text. It has zstd where that library's headers are on the machine.

const readline = require('node:readline')
const Kafka = require('node-rdkafka')

const WAIT_MS = 60000
const ASSIGN = Kafka.CODES.ERRORS.ERR__ASSIGN_PARTITIONS
const say = what => process.stdout.write(JSON.stringify(what) + '\n')
const bytes = field => (field === '~' ? null : Buffer.from(field, 'base64'))
const text = value => (value === null || value === undefined ? null : value.toString('base64'))

// The result of a call with a callback at its end.
const asked = call => new Promise((resolve, reject) => call((error, result) => (error ? reject(error) : resolve(result))))
const connected = client => asked(done => client.connect({}, done)).then(() => client)
const closed = client => new Promise(resolve => client.disconnect(resolve))

const member = (bootstrap, group, options = {}) => new Kafka.KafkaConsumer({
  'metadata.broker.list': bootstrap,
  'group.id': group,
  'session.timeout.ms': 6000,
  'heartbeat.interval.ms': 500,
  'auto.commit.interval.ms': 200,
  'topic.metadata.refresh.interval.ms': 1000,
  ...options,
}, { 'auto.offset.reset': 'earliest' })

async function consume (bootstrap, group, topic, strategy, instance) {
  const consumer = member(bootstrap, group, {
    ...(strategy === '-' ? {} : { 'partition.assignment.strategy': strategy }),
    ...(instance === '-' ? {} : { 'group.instance.id': instance, 'session.timeout.ms': 30000 }), // it outlives a restart
    rebalance_cb: true,
  })
  consumer.on('rebalance', (error, partitions) => {
    const owned = partitions.map(p => p.partition).sort((one, other) => one - other)
    say({ [error.code === ASSIGN ? 'gained' : 'gave_up']: owned, at: Date.now() })
  })
  consumer.on('data', m => say({ read: [m.partition, m.offset] }))
  process.on('SIGTERM', async () => {
    await closed(consumer)
    say({ left: true })
    process.exit(0)
  })
  await connected(consumer)
  consumer.subscribe([topic])
  consumer.consume()
}

async function discover (bootstrap, group, prefix, count) {
  const consumer = await connected(member(bootstrap, group))
  consumer.subscribe([new RegExp(`^${prefix}.*`)])
  await records(consumer, count, m => say({ found: [m.topic, m.offset] }))
  await closed(consumer)
}

// Read so many records, and hand each on.
const records = (consumer, count, each) => new Promise(resolve => {
  consumer.on('data', m => {
    if (count-- > 0) each(m)
    if (count === 0) resolve()
  })
  consumer.consume()
})

async function produce (bootstrap, topic, codec) {
  const producer = new Kafka.Producer({
    'metadata.broker.list': bootstrap,
    'enable.idempotence': true,
    'linger.ms': 50,
    'compression.codec': codec,
    dr_cb: true,
  })
  await connected(producer)
  producer.setPollInterval(20)
  let waiting = 0
  producer.on('delivery-report', (error, report) => {
    if (error) throw error
    say({ sent: [report.partition, report.offset] })
    waiting--
  })
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [partition, key, value, ...rest] = line.split('\t')
    const headers = rest.map(header => {
      const at = header.indexOf('=')
      return { [header.slice(0, at)]: bytes(header.slice(at + 1)).toString() }
    })
    waiting++
    producer.produce(topic, partition === '-' ? null : Number(partition), bytes(value), bytes(key), null, null, headers)
  }
  await asked(done => producer.flush(WAIT_MS, done))
  while (waiting) await new Promise(resolve => setTimeout(resolve, 10)) // reports come behind it
  await closed(producer)
}

async function read (bootstrap, topic, partition, count) {
  const consumer = await connected(member(bootstrap, 'unused', { 'enable.auto.commit': false }))
  consumer.assign([{ topic, partition, offset: 0 }])
  await records(consumer, count, m => {
    const headers = (m.headers || []).flatMap(h => Object.entries(h)).map(([name, value]) => [name, text(value)])
    say({ record: [m.offset, m.timestamp, text(m.key), text(m.value), headers] })
  })
  await closed(consumer)
}

async function admin (bootstrap, topic, group, there, timeMs) {
  const client = Kafka.AdminClient.create({ 'metadata.broker.list': bootstrap })
  const consumer = await connected(member(bootstrap, group))
  const every = () => asked(done => consumer.getMetadata({ timeout: WAIT_MS }, done))
  const partitions = async () =>
    (await asked(done => consumer.getMetadata({ topic, timeout: WAIT_MS }, done))).topics.find(t => t.name === topic).partitions
  const wanted = { topic, num_partitions: 2, replication_factor: 1, config: { 'retention.ms': '1234567' } }
  await asked(done => client.createTopic(wanted, WAIT_MS, done))
  say({ created: (await partitions()).length })
  const again = await asked(done => client.createTopic(wanted, WAIT_MS, done)).catch(error => error)
  say({ refused: again.code === Kafka.CODES.ERRORS.ERR_TOPIC_ALREADY_EXISTS })
  await asked(done => client.createPartitions(topic, 3, WAIT_MS, done))
  // A broker of Apache Kafka may learn of it a little later than the controller has answered.
  for (let tries = 0; (await partitions()).length === 2 && tries < 100; tries++) {
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  say({ grown: (await partitions()).length })
  const cluster = await every()
  say({ listed: cluster.topics.find(t => t.name === topic).partitions.length })
  const rows = (await partitions()).map(p => [p.id, p.leader, p.replicas, p.isrs])
  say({ described: rows.sort((one, other) => one[0] - other[0]) })
  say({ cluster: [cluster.brokers.map(b => b.id), cluster.orig_broker_id] })
  const ends = await asked(done => consumer.queryWatermarkOffsets(there, 0, WAIT_MS, done))
  const times = [{ topic: there, partition: 0, offset: timeMs }]
  const [later] = await asked(done => consumer.offsetsForTimes(times, WAIT_MS, done))
  say({ offsets: [ends.lowOffset, ends.highOffset], at_time: later.offset })
  const [held] = await asked(done => consumer.committed([{ topic: there, partition: 0 }], WAIT_MS, done))
  say({ committed: { 0: held.offset } })
  consumer.commitSync([{ topic: there, partition: 0, offset: 2 }])
  const [moved] = await asked(done => consumer.committed([{ topic: there, partition: 0 }], WAIT_MS, done))
  say({ moved: { 0: moved.offset } })
  await asked(done => client.deleteTopic(topic, WAIT_MS, done))
  const isThere = async () => (await every()).topics.some(t => t.name === topic)
  for (let tries = 0; await isThere() && tries < 100; tries++) { // a broker may learn of that later, too
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  say({ deleted: !await isThere() })
  client.disconnect()
  await closed(consumer)
}

const [verb, bootstrap, ...rest] = process.argv.slice(2)
const verbs = {
  consume: () => consume(bootstrap, ...rest),
  discover: () => discover(bootstrap, rest[0], rest[1], Number(rest[2])),
  produce: () => produce(bootstrap, ...rest),
  read: () => read(bootstrap, rest[0], Number(rest[1]), Number(rest[2])),
  admin: () => admin(bootstrap, rest[0], rest[1], rest[2], Number(rest[3])),
}
verbs[verb]().catch(error => {
  console.error(error)
  process.exit(1)
})
