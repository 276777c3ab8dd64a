-- Hands out the next start times of the shared pace.
--
-- KEYS[1] state of the pace (hash)
-- KEYS[2] brake; its time to live is how long nobody may start
-- KEYS[3] override: microseconds between two starts that an operator wants for
--         a while. It can only slow down: the longer delay wins
-- ARGV[1] number of slots wanted; 0 only announces the delay and reads the time
-- ARGV[2] microseconds between two starts that this process is configured with
-- ARGV[3] microseconds from now before which a slot is of no use to it
--
-- Returns {now, milliseconds of brake, delay in force, override or 0, slot,
-- slot, ...}; times are microseconds since 1970 on Redis' clock. No slots under the brake, and
-- fewer than wanted where they would lie too far ahead.
--
-- Fields of the state: next (the first time not handed out), delay and
-- delay_at (the longest delay that a process announced, and when), speed and
-- speed_at (share of the pace in force after a 429, see throttle.lua, or after an
-- override), warm_at (when starts began after a pause), override (the last one
-- seen).

local idle = 1000000                -- after this without starts, connections are cold
local warm_up = 2000000             -- the pace is back to full after this
local cold_extra = 0.25             -- and this much slower at its beginning
local after_override = 0.8          -- share of the pace when an override ends

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local wanted, own, ahead = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local fields = write_over('HMGET', KEYS[1], 'next', 'delay', 'delay_at', 'speed', 'speed_at', 'warm_at', 'override')
local next_start = tonumber(fields[1]) or 0
local delay, delay_at = tonumber(fields[2]) or 0, tonumber(fields[3]) or 0
local speed, speed_at = tonumber(fields[4]) or 1, tonumber(fields[5]) or 0
local warm_at = tonumber(fields[6]) or 0
local last_override = tonumber(fields[7]) or 0
local override = tonumber(read('GET', KEYS[3])) or 0

-- Processes that are configured differently: the slowest wins.
if own >= delay or now - delay_at > announcement_lives or delay_at > now then
  delay, delay_at = own, now
end

local pace = math.max(delay, override)

local function store(...)
  redis.call('HSET', KEYS[1], 'delay', string.format('%.0f', delay), 'delay_at', string.format('%.0f', delay_at),
    'override', string.format('%.0f', override), ...)
  redis.call('EXPIRE', KEYS[1], 3600)
end

speed = recovered(speed, speed_at, now)
-- Other processes may hold slots of the slower pace for a few seconds yet: the
-- faster one leaves room for them.
if override < last_override and speed > after_override then
  speed, speed_at = after_override, now
  redis.call('HSET', KEYS[1], 'speed', string.format('%.6f', speed), 'speed_at', string.format('%.0f', now))
end

local brake = redis.call('PTTL', KEYS[2])
if brake > 0 or wanted == 0 then
  store()
  return {now, math.max(brake, 0), pace, override}
end

-- Nothing is handed out beyond this, so a pace beyond it means that the clock
-- has jumped back (failover), and the other times are in the future too.
local far = now + 5000000 + 100 * pace
if next_start > far then
  next_start, warm_at, speed_at = now, now, now
  redis.call('HSET', KEYS[1], 'speed_at', string.format('%.0f', speed_at))
end
if next_start < now - idle then warm_at = now end
-- No burst: what was not used is gone.
local start = math.max(next_start, now + ahead)

local reply = {now, 0, pace, override}
for _ = 1, wanted do
  local step = pace
  if start < warm_at + warm_up then
    step = step * (1 + cold_extra * (1 - math.max(start - warm_at, 0) / warm_up))
  end
  step = math.ceil(step / speed)
  if start + step > far then break end
  reply[#reply + 1] = start
  start = start + step
end

store('next', string.format('%.0f', start), 'warm_at', string.format('%.0f', warm_at))
return reply
