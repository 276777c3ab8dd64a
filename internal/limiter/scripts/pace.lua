-- Tells the pace without changing it.
--
-- KEYS[1] state of the pace (hash, see reserve.lua)
-- KEYS[2] brake
-- KEYS[3] override
--
-- Returns {longest delay that a process has announced lately or 0, override or
-- 0, milliseconds for which it holds yet, share of the pace in force in parts
-- per million, milliseconds of brake, what the brake says (see throttle.lua) or ''}; delays are
-- microseconds.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local fields = read('HMGET', KEYS[1], 'delay', 'delay_at', 'speed', 'speed_at') or {}
local delay, delay_at = tonumber(fields[1]) or 0, tonumber(fields[2]) or 0
local speed, speed_at = tonumber(fields[3]) or 1, tonumber(fields[4]) or 0
if now - delay_at > announcement_lives then delay = 0 end
speed = recovered(speed, speed_at, now)

return {delay, tonumber(read('GET', KEYS[3])) or 0, math.max(redis.call('PTTL', KEYS[3]), 0),
  math.floor(speed * 1000000), math.max(redis.call('PTTL', KEYS[2]), 0), read('GET', KEYS[2]) or ''}
