-- Writes what others read under the idempotency key of a notification, unless they read
-- there already that it was sent: who writes may be late.
--
-- KEYS[1] the key
-- ARGV[1] processing, sent or failed
-- ARGV[2] seconds that it lives
--
-- Returns what is there now. May be repeated.

-- What others may have put there, of another type, is no reason to stop.
if redis.pcall('GET', KEYS[1]) == 'sent' then return 'sent' end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return ARGV[1]
