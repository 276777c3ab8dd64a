-- Slows the shared pace after the provider answered 429.
--
-- KEYS[1] state of the pace (hash, see reserve.lua)
-- KEYS[2] brake
-- ARGV[1] milliseconds that the provider asked to wait, 0 if it did not
--
-- Returns the milliseconds of brake now in force. The speed falls to 80 %, at
-- most once a second, and never below 5 %.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local asked = tonumber(ARGV[1])

local fields = redis.call('HMGET', KEYS[1], 'speed', 'speed_at', 'cut_at')
local speed, speed_at, cut_at = tonumber(fields[1] or 1), tonumber(fields[2] or 0), tonumber(fields[3] or 0)
if now - cut_at >= 1000000 or cut_at > now then
  speed = math.max(recovered(speed, speed_at, now) * 0.8, 0.05)
  redis.call('HSET', KEYS[1], 'speed', string.format('%.6f', speed),
    'speed_at', string.format('%.0f', now), 'cut_at', string.format('%.0f', now))
  redis.call('EXPIRE', KEYS[1], 3600)
end

local brake = math.max(redis.call('PTTL', KEYS[2]), 0)
if asked > brake then
  redis.call('SET', KEYS[2], '429', 'PX', asked)
  brake = asked
end
return brake
