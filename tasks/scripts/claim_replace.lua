-- Replaces the claim of an idempotency key by that of another push, if it is still as
-- the caller has seen it.
--
-- KEYS[1] claim of the idempotency key: the id of its push, and ' ended' behind it when
--         that has ended (record.lua: mark_claim)
-- ARGV[1] the claim that the caller has seen; '' for none
-- ARGV[2] id of the other push
-- ARGV[3] seconds that the claim lives
--
-- Returns the claim as it is now.

local claim = redis.call('GET', KEYS[1]) or ''
if claim ~= ARGV[1] then return claim end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return ARGV[2]
