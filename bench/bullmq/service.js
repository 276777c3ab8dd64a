// The same service on BullMQ, with its own rate limiter:
//   node service.js api|worker REDIS_URL SWRVE_URL CONCURRENCY RATE
// RATE is the number of pushes a second over all workers, 0 for no limit.
import http from 'node:http';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const [role, redisURL, swrveURL, concurrency, rate] = process.argv.slice(2);
const connection = new Redis(redisURL, { maxRetriesPerRequest: null });
const agent = new http.Agent({ keepAlive: true, maxSockets: Number(concurrency), maxFreeSockets: Number(concurrency) });

function send(push) {
  const form = new URLSearchParams({ push_key: 'ios-key', user: push.pushKey, message: push.message }).toString();
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded; charset=utf-8', 'Content-Length': Buffer.byteLength(form) };
  return new Promise((resolve, reject) => {
    const request = http.request(swrveURL, { method: 'POST', agent, headers }, (response) => {
      response.resume();
      response.on('end', () => response.statusCode < 300 ? resolve() : reject(new Error(`the provider answered ${response.statusCode}`)));
    });
    request.on('error', reject);
    request.end(form);
  });
}

function accept(queue, request, response) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', async () => {
    try {
      const push = JSON.parse(Buffer.concat(parts));
      const job = await queue.add('push', push, { attempts: 3, removeOnComplete: { age: 3600 } });
      response.writeHead(202, { Location: `/push/${job.id}` }).end();
    } catch (error) {
      response.writeHead(400).end(String(error));
    }
  });
}

let queue;
if (role === 'api') {
  queue = new Queue('push', { connection });
} else {
  const limiter = Number(rate) > 0 ? { max: Number(rate), duration: 1000 } : undefined;
  const worker = new Worker('push', (job) => send(job.data), { connection, concurrency: Number(concurrency), limiter });
  await worker.waitUntilReady();
}

const server = http.createServer((request, response) => {
  if (queue && request.method === 'POST' && request.url === '/push') {
    accept(queue, request, response);
  } else {
    response.writeHead(request.url === '/health/ready' ? 200 : 404).end();
  }
});
server.listen(0, '127.0.0.1', () => console.error(`level=INFO msg="http listening" address=127.0.0.1:${server.address().port}`));
process.on('SIGTERM', () => process.exit(0));
