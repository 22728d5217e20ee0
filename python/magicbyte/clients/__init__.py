"""Real Kafka clients that take and give magicbyte's records, and run serdes and interceptor chains. The rest is the client's.

``magicbyte.clients.confluent`` (extra ``confluent``): Producer, Consumer, AIOProducer, AIOConsumer.
``magicbyte.clients.aiokafka`` (extra ``aiokafka``): AIOKafkaProducer, AIOKafkaConsumer.
"""
