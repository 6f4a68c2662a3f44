-- Orders by distinct users, for wrk.
--
--   THREADS=2 wrk -t2 -c64 -d10s -s loadtest/wrk-orders.lua http://127.0.0.1:8080/api/v1/vouchers/ID/orders
--
-- Every request is a POST by another user to the URL: an order, or a bare handler to
-- compare it with. The answers are counted by code.
--
-- Environment
--   FIRST_USER   the first user id  (1)
--   THREADS      the number of threads that wrk has by -t  (1)
--   TOKENS       a file of tokens, one per line, as `lab tokens` writes it; without
--                it users are named by X-User-ID, which a server in lab mode accepts.
--                When the tokens run out they are used again.
--   KEYS         the prefix of every request's Idempotency-Key; without it there is none
--   COUNT        code: by the code in the answer's body  (default)
--                status: by the status only, which costs wrk less
--                none: not at all; only wrk's own summary has numbers

local first = tonumber(os.getenv("FIRST_USER") or "1")
local stride = tonumber(os.getenv("THREADS") or "1")
local keys = os.getenv("KEYS") or ""
local count = os.getenv("COUNT") or "code"
if count ~= "code" and count ~= "status" and count ~= "none" then
  error('COUNT is "' .. count .. '"; code, status or none')
end

-- In wrk's main thread ---------------------------------------------------------

local threads = {}

-- A thread begins to send before the next one is set up, so the threads cannot be counted
-- here in time for those that send already.
function setup(thread)
  if #threads == stride then
    error("wrk has more than " .. stride .. " threads; say how many with THREADS")
  end
  thread:set("index", #threads)
  threads[#threads + 1] = thread
end

function done(summary, latency, _)
  local seconds = summary.duration / 1e6
  io.write(string.format("\n%d requests in %.2f s, %.0f requests/s\n", summary.requests, seconds, summary.requests / seconds))
  io.write(string.format("latency p50 %.1f ms, p95 %.1f ms, p99 %.1f ms, max %.1f ms\n",
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
  write_outcomes(summary.requests)
  local e = summary.errors
  if e.connect + e.read + e.write + e.timeout > 0 then
    io.write(string.format("  network           connect %d, read %d, write %d, timeout %d\n", e.connect, e.read, e.write, e.timeout))
  end
end

function write_outcomes(requests)
  local total = {}
  for _, t in ipairs(threads) do
    for code, n in pairs(t:get("outcomes")) do total[code] = (total[code] or 0) + n end
  end
  local codes = {}
  for code in pairs(total) do codes[#codes + 1] = code end
  table.sort(codes, function(a, b) return total[a] > total[b] end)
  for _, code in ipairs(codes) do
    io.write(string.format("  %-17s %9d  %5.1f %%\n", code, total[code], 100 * total[code] / requests))
  end
end

-- In each of its load threads --------------------------------------------------

outcomes = {} -- global, so that the main thread can fetch it

local tokens
local sent = 0

function init()
  wrk.method = "POST"
  local path = os.getenv("TOKENS")
  if not path or path == "" then return end
  tokens = {}
  for line in io.lines(path) do tokens[#tokens + 1] = line end
  if #tokens == 0 then error(path .. " has no tokens") end
end

-- The users are interleaved: of four threads, the second has users 2, 6, 10 and so on.
function request()
  local buyer = index + sent * stride
  sent = sent + 1
  if tokens then
    wrk.headers["Authorization"] = "Bearer " .. tokens[buyer % #tokens + 1]
  else
    wrk.headers["X-User-ID"] = string.format("%d", first + buyer)
  end
  if keys ~= "" then
    wrk.headers["Idempotency-Key"] = keys .. buyer
  end
  return wrk.format()
end

local function tally(code) outcomes[code] = (outcomes[code] or 0) + 1 end

-- wrk parses bodies and headers only if there is a response function.
if count == "status" then
  function response(status) tally(tostring(status)) end
elseif count == "code" then
  function response(status, _, body)
    if status == 201 then
      tally("created")
    elseif status == 202 then
      tally("pending")
    else
      tally(body:match('"code"%s*:%s*"([%w_]+)"') or tostring(status))
    end
  end
end
