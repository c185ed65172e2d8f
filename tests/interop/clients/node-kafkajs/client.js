// KafkaJS behind the command line of ../README.md. It has neither static members nor a choice of assignors, and of the
// codecs gzip; snappy is plugged in as its documentation shows.

const fs = require('node:fs')
const readline = require('node:readline')
const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, ConfigResourceTypes, logLevel } = require('kafkajs')
const SnappyJS = require('snappyjs')

// Java's snappy frames: a header of 16 bytes, then blocks, each with its length; librdkafka writes bare blocks.
const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00])

CompressionCodecs[CompressionTypes.Snappy] = () => ({
  compress: async encoder => Buffer.from(SnappyJS.compress(encoder.buffer)),
  decompress: async buffer => {
    if (!buffer.subarray(0, 8).equals(XERIAL)) return Buffer.from(SnappyJS.uncompress(buffer))
    const blocks = []
    for (let at = 16; at < buffer.length; ) {
      const size = buffer.readInt32BE(at)
      blocks.push(Buffer.from(SnappyJS.uncompress(buffer.subarray(at + 4, at + 4 + size))))
      at += 4 + size
    }
    return Buffer.concat(blocks)
  },
})

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

const say = what => process.stdout.write(JSON.stringify(what) + '\n')
const bytes = field => (field === '~' ? null : Buffer.from(field, 'base64'))
const text = value => (value === null || value === undefined ? null : Buffer.from(value).toString('base64'))

// What --security=FILE tells.
const args = process.argv.slice(2)
const given = {}
if (args[0].startsWith('--security=')) {
  for (const line of fs.readFileSync(args.shift().slice('--security='.length), 'utf8').trim().split('\n')) {
    given[line.slice(0, line.indexOf('='))] = line.slice(line.indexOf('=') + 1)
  }
}

const file = name => given[name] && fs.readFileSync(given[name])
const security = () => ({
  ...((given['security.protocol'] || '').endsWith('SSL') && {
    ssl: { ca: [file('ssl.ca.location')], cert: file('ssl.certificate.location'), key: file('ssl.key.location') },
  }),
  ...(given['sasl.mechanism'] && {
    sasl: given.token
      ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: given.token }) }
      : {
          mechanism: given['sasl.mechanism'].toLowerCase(),
          username: given['sasl.username'],
          password: given['sasl.password'],
        },
  }),
})

const connect = bootstrap =>
  new Kafka({
    brokers: [bootstrap],
    clientId: 'kafkajs',
    logLevel: logLevel.ERROR,
    retry: { retries: 40, maxRetryTime: 1000 },
    ...security(),
  })

async function consume (bootstrap, groupId, topic) {
  const consumer = connect(bootstrap).consumer({
    groupId,
    sessionTimeout: 6000,
    heartbeatInterval: 500,
    rebalanceTimeout: 10000,
    metadataMaxAge: 1000,
  })
  let owned = []
  const giveUp = () => {
    say({ gave_up: owned, at: Date.now() })
    owned = []
  }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    owned = payload.memberAssignment[topic] || []
    say({ gained: owned, at: Date.now() })
  })
  consumer.on(consumer.events.REBALANCING, giveUp)
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    giveUp()
    say({ left: true })
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ partition, message }) => say({ read: [partition, Number(message.offset)] }),
  })
}

async function produce (bootstrap, topic, codec) {
  const producer = connect(bootstrap).producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    idempotent: true,
    maxInFlightRequests: 1,
  })
  await producer.connect()
  const messages = []
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [partition, key, value, ...rest] = line.split('\t')
    const headers = {}
    for (const header of rest) {
      const at = header.indexOf('=')
      const name = header.slice(0, at)
      headers[name] = [...(headers[name] || []), bytes(header.slice(at + 1))]
    }
    messages.push({ partition: Number(partition), key: bytes(key), value: bytes(value), headers })
  }
  const sent = await producer.send({ topic, compression: CODECS[codec], messages })
  const next = Object.fromEntries(sent.map(s => [s.partition, Number(s.baseOffset)]))
  for (const { partition } of messages) say({ sent: [partition, next[partition]++] })
  await producer.disconnect()
}

async function read (bootstrap, topic, partition, count) {
  const groupId = `kafkajs-read-${process.pid}` // it cannot read without a group
  const consumer = connect(bootstrap).consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    let found = 0
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition: from, message: m }) => {
        if (from !== partition || found === count) return
        const headers = Object.entries(m.headers).flatMap(([name, value]) =>
          (Array.isArray(value) ? value : [value]).map(one => [name, text(one)]))
        say({ record: [Number(m.offset), Number(m.timestamp), text(m.key), text(m.value), headers] })
        if (++found === count) resolve()
      },
    }).catch(reject)
  })
  await consumer.disconnect()
}

async function discover (bootstrap, groupId, prefix, count) {
  const consumer = connect(bootstrap).consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topics: [new RegExp(`^${prefix}.*`)], fromBeginning: true })
  await new Promise((resolve, reject) => {
    let found = 0
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      eachMessage: async ({ topic, message }) => {
        say({ found: [topic, Number(message.offset)] })
        if (++found === count) resolve()
      },
    }).catch(reject)
  })
  await consumer.disconnect()
}

async function admin (bootstrap, topic, group, there, timeMs) {
  const admin = connect(bootstrap).admin()
  await admin.connect()
  await topics(admin, topic)
  await configs(admin, topic)
  const { brokers, controller } = await admin.describeCluster()
  say({ cluster: [brokers.map(b => b.nodeId), controller] })
  say({ broker: await option(admin, ConfigResourceTypes.BROKER, String(controller), 'log.cleanup.policy') })
  const [{ low, high }] = await admin.fetchTopicOffsets(there)
  const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(there, timeMs)
  say({ offsets: [Number(low), Number(high)], at_time: Number(offset) })
  await admin.deleteTopicRecords({ topic: there, partitions: [{ partition: 0, offset: '1' }] })
  say({ cut: Number((await admin.fetchTopicOffsets(there))[0].low) })
  await groups(admin, group, there)
  await admin.deleteTopics({ topics: [topic] })
  const isThere = async () => (await admin.listTopics()).includes(topic)
  for (let tries = 0; await isThere() && tries < 100; tries++) { // a broker may learn of that later, too
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  say({ deleted: !await isThere() })
  await admin.disconnect()
}

async function topics (admin, topic) {
  const wanted = {
    topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries: [{ name: 'retention.ms', value: '1234567' }] }],
  }
  const partitions = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions
  await admin.createTopics(wanted)
  say({ created: (await partitions()).length })
  say({ refused: !(await admin.createTopics(wanted)) })
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  // A broker of Apache Kafka may learn of it a little later than the controller has answered.
  for (let tries = 0; (await partitions()).length === 2 && tries < 100; tries++) {
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  say({ grown: (await partitions()).length })
  const every = (await admin.fetchTopicMetadata()).topics.find(t => t.name === topic)
  say({ listed: (await admin.listTopics()).includes(topic) ? every.partitions.length : 0 })
  const rows = (await partitions()).map(p => [p.partitionId, p.leader, p.replicas, p.isr])
  say({ described: rows.sort((one, other) => one[0] - other[0]) })
}

async function configs (admin, topic) {
  say({ retention: await option(admin, ConfigResourceTypes.TOPIC, topic, 'retention.ms') })
  const configEntries = [{ name: 'retention.ms', value: '7654321' }]
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
  say({ altered: await option(admin, ConfigResourceTypes.TOPIC, topic, 'retention.ms') })
}

async function option (admin, type, name, wanted) {
  const resources = [{ type, name, configNames: [wanted] }]
  const described = await admin.describeConfigs({ resources, includeSynonyms: false })
  return described.resources[0].configEntries.find(entry => entry.configName === wanted).configValue
}

async function groups (admin, group, there) {
  const listed = async () => (await admin.listGroups()).groups.some(g => g.groupId === group)
  const committed = async () => Object.fromEntries((await admin.fetchOffsets({ groupId: group }))
    .flatMap(({ partitions }) => partitions.map(p => [p.partition, Number(p.offset)])))
  say({ groups: await listed() })
  const described = (await admin.describeGroups([group])).groups[0]
  say({ group: [described.state, described.members.length] })
  say({ committed: await committed() })
  await admin.setOffsets({ groupId: group, topic: there, partitions: [{ partition: 0, offset: '2' }] })
  say({ moved: await committed() })
  await admin.deleteGroups([group])
  say({ group_deleted: !(await listed()) })
}

const [verb, bootstrap, ...rest] = args
const verbs = {
  consume: () => consume(bootstrap, rest[0], rest[1]),
  produce: () => produce(bootstrap, rest[0], rest[1]),
  read: () => read(bootstrap, rest[0], Number(rest[1]), Number(rest[2])),
  discover: () => discover(bootstrap, rest[0], rest[1], Number(rest[2])),
  admin: () => admin(bootstrap, rest[0], rest[1], rest[2], Number(rest[3])),
}
verbs[verb]().catch(error => {
  console.error(error)
  process.exit(1)
})
