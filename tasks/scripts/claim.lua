-- Claims a push id for the content that a caller posted with an idempotency
-- key. (SET with NX and GET together would do, but Redis allows it only from
-- version 7.0.)
--
-- KEYS[1] claim of the idempotency key
-- ARGV[1] hash of the posted fields
-- ARGV[2] seconds that the claim lives
--
-- Returns CLAIMED for the first caller, REPEATED for the same content again,
-- ENDED for the same content after the push has ended, OTHER for other content.

local claim = redis.call('GET', KEYS[1])
if not claim then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
  return 'CLAIMED'
end
if claim == ARGV[1] then return 'REPEATED' end
if claim == ARGV[1] .. ' ended' then return 'ENDED' end
return 'OTHER'
