package history

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

// What a role, a database or the address says of the encoding does not change what is stored.
func TestTextsAreStoredAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const user = "café €"
	for id, prepare := range map[string]string{
		"01": "ALTER ROLE test SET client_encoding = 'LATIN1'",
		"02": "ALTER DATABASE postgres SET client_encoding = 'SQL_ASCII'",
		"03": "ALTER ROLE test IN DATABASE postgres SET client_encoding = 'WIN1252'",
	} {
		w.exec(prepare)
		for suffix, parameter := range map[string]string{"": "", "-address": "&client_encoding=LATIN1"} {
			store := openStore(t, w.server.URL()+parameter, w.log)
			require.NoError(t, store.Write(t.Context(), []Row{row(tasks.Swrve, id+suffix, sent(swrvePush(user)))}))
			stored := w.values("SELECT encode(convert_to(push_key, 'UTF8'), 'escape') FROM push_notifications WHERE id = $1", id+suffix)
			require.Equal(t, []string{`caf\303\251 \342\202\254`}, stored, prepare)
			page, err := store.Search(t.Context(), Query{User: user, Limit: MaxPage})
			require.NoError(t, err)
			require.Equal(t, user, page.Entries[0].Report.Push.PushKey)
		}
	}
}

// A database of another encoding has what it can represent. The rest is kept byte for byte,
// and holds up nothing.
func TestADatabaseOfAnotherEncoding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
	store := openStore(t, w.urlOf("test", "latin"), w.log)
	require.NoError(t, store.Check(t.Context()))
	euro := row(tasks.Swrve, "02", sent(swrvePush("€")))
	require.NoError(t, store.Write(t.Context(), []Row{
		row(tasks.Swrve, "01", sent(swrvePush("café"))), euro,
		{Channel: "fcm", PushID: "03\xff", Record: []byte("\x00")},
	}))
	require.Equal(t, Stats{Written: 1, PutAside: 2}, store.Stats())
	page, err := store.Search(t.Context(), Query{User: "café", Limit: MaxPage})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	page, err = store.Search(t.Context(), Query{User: "€", Limit: MaxPage})
	require.NoError(t, err, "it is not there")
	require.Empty(t, page.Entries)
	kept, err := queryTexts(t.Context(), store.pool, "SELECT encode(record, 'hex') FROM unreadable_records WHERE push_id = '02'")
	require.NoError(t, err)
	require.Equal(t, []string{hex.EncodeToString(euro.Record)}, kept)
	names, err := queryTexts(t.Context(), store.pool, "SELECT push_id FROM unreadable_records ORDER BY push_id")
	require.NoError(t, err)
	require.Equal(t, []string{"02", `03\ufffd`}, names)
}
